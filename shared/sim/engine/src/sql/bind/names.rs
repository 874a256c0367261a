//! Names as they are written: identifiers and types.

use crate::catalog::{Catalog, Domain};
use crate::error::{Result, SqlError};
use crate::types::{self, Type};
use sqlparser::ast::{self};
use std::sync::Arc;

/// Types that PostgreSQL has and DSQL refuses.
pub(super) const UNSUPPORTED_TYPES: &[&str] = &[
    "money",
    "xml",
    "cidr",
    "macaddr",
    "macaddr8",
    "point",
    "line",
    "lseg",
    "box",
    "path",
    "polygon",
    "circle",
    "tsvector",
    "tsquery",
    "int4range",
    "int8range",
    "numrange",
    "tsrange",
    "tstzrange",
    "daterange",
    "int4multirange",
    "int8multirange",
    "nummultirange",
    "tsmultirange",
    "tstzmultirange",
    "datemultirange",
    "bit",
    "bit varying",
    "pg_lsn",
    "txid_snapshot",
    "pg_snapshot",
    "jsonpath",
];

pub(super) fn unsupported_type(name: &str) -> SqlError {
    SqlError::unsupported(format!("datatype {name} not supported"))
}

/// The type that a data type names, and its domain if it is one.
pub(crate) fn data_type(
    catalog: &Catalog,
    ty: &ast::DataType,
) -> Result<(Type, Option<Arc<Domain>>)> {
    use ast::DataType as D;
    let length = |length: &Option<ast::CharacterLength>| match length {
        Some(ast::CharacterLength::IntegerLength { length, .. }) => vec![*length],
        _ => Vec::new(),
    };
    let exact = |info: &ast::ExactNumberInfo| match info {
        ast::ExactNumberInfo::None => Vec::new(),
        ast::ExactNumberInfo::Precision(precision) => vec![*precision],
        ast::ExactNumberInfo::PrecisionAndScale(precision, scale) => {
            vec![*precision, u64::try_from(*scale).unwrap_or(0)]
        }
    };
    let zoned = |zone: &ast::TimezoneInfo| {
        matches!(
            zone,
            ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz
        )
    };
    let named = |name: &str, modifiers: Vec<u64>| types::by_name(name, &modifiers);
    let plain = |ty: Type| Ok((ty, None));
    let ty = match ty {
        D::Character(n) | D::Char(n) => named("char", length(n))?,
        D::CharacterVarying(n) | D::CharVarying(n) | D::Varchar(n) => named("varchar", length(n))?,
        D::Uuid => Type::UUID,
        D::Numeric(info) | D::Decimal(info) | D::Dec(info) => named("numeric", exact(info))?,
        D::Float(info) => named("float", exact(info))?,
        D::Int2(_) | D::SmallInt(_) => Type::INT2,
        D::Int(_) | D::Int4(_) | D::Integer(_) => Type::INT4,
        D::Int8(_) | D::BigInt(_) => Type::INT8,
        D::Float4 | D::Real => Type::FLOAT4,
        D::Float8 | D::DoublePrecision => Type::FLOAT8,
        D::Bool | D::Boolean => Type::BOOL,
        D::Date => Type::DATE,
        D::Time(n, zone) => {
            let name = if zoned(zone) { "timetz" } else { "time" };
            named(name, n.iter().copied().collect())?
        }
        D::Timestamp(n, zone) => {
            let name = if zoned(zone) {
                "timestamptz"
            } else {
                "timestamp"
            };
            named(name, n.iter().copied().collect())?
        }
        D::Interval { .. } => Type::INTERVAL,
        D::JSON => Type::JSON,
        D::JSONB => Type::JSONB,
        D::Regclass => Type::REGCLASS,
        D::Text => Type::TEXT,
        D::Bytea => Type::BYTEA,
        D::Bit(_) => return Err(unsupported_type("bit")),
        D::BitVarying(_) | D::VarBit(_) => return Err(unsupported_type("bit varying")),
        D::TsVector => return Err(unsupported_type("tsvector")),
        D::TsQuery => return Err(unsupported_type("tsquery")),
        D::GeometricType(kind) => {
            return Err(unsupported_type(&kind.to_string().to_lowercase()));
        }
        D::Array(
            ast::ArrayElemTypeDef::SquareBracket(element, _)
            | ast::ArrayElemTypeDef::AngleBracket(element),
        ) => {
            let (element, _) = data_type(catalog, element)?;
            return match element.plain().array() {
                Some(array) => plain(array),
                None => Err(SqlError::simulator("an array of arrays")),
            };
        }
        D::Custom(name, modifiers) => {
            let parts = name_parts(name)?;
            let last = parts.last().map_or("", String::as_str);
            if let Some(domain) = catalog.domains.get(last) {
                return Ok((domain.ty, Some(Arc::clone(domain))));
            }
            let numbers: Vec<u64> = modifiers
                .iter()
                .filter_map(|modifier| match modifier {
                    ast::TypeModifier::Number(digits, _) => digits.parse().ok(),
                    _ => None,
                })
                .collect();
            if UNSUPPORTED_TYPES.contains(&last) {
                return Err(unsupported_type(last));
            }
            if last == "varbit" {
                return Err(unsupported_type("bit varying"));
            }
            if let Some(element) = last.strip_prefix('_')
                && let Ok(element) = types::by_name(element, &[])
                && let Some(array) = element.array()
            {
                return plain(array);
            }
            // A bare bpchar has no length, unlike char.
            named(last, numbers)?
        }
        other => {
            let name = other.to_string().to_lowercase();
            return Err(SqlError::new(
                "42704",
                format!("type \"{name}\" does not exist"),
            ));
        }
    };
    plain(ty)
}

/// A name as it is looked up: lower case unless it was quoted.
pub(crate) fn fold(ident: &ast::Ident) -> String {
    if ident.quote_style.is_some() {
        ident.value.clone()
    } else {
        ident.value.to_lowercase()
    }
}

/// The parts of a dotted name.
pub(crate) fn name_parts(name: &ast::ObjectName) -> Result<Vec<String>> {
    name.0
        .iter()
        .map(|part| match part {
            ast::ObjectNamePart::Identifier(ident) => Ok(fold(ident)),
            ast::ObjectNamePart::Function(_) => Err(SqlError::simulator("a function in a name")),
        })
        .collect()
}

/// Schema, if given, and name.
pub(crate) fn qualified(name: &ast::ObjectName) -> Result<(Option<String>, String)> {
    let mut parts = name_parts(name)?;
    match parts.len() {
        1 => Ok((None, parts.remove(0))),
        2 => {
            let schema = parts.remove(0);
            Ok((Some(schema), parts.remove(0)))
        }
        3 => {
            let schema = parts.remove(1);
            Ok((Some(schema), parts.remove(1)))
        }
        _ => Err(SqlError::new(
            "42601",
            format!("improper relation name (too many dotted names): {name}"),
        )),
    }
}

/// A function's name; that of a system function without its schema.
pub(crate) fn function_name(name: &ast::ObjectName) -> Result<String> {
    let parts = name_parts(name)?;
    Ok(match parts.as_slice() {
        [schema, name] if schema == "pg_catalog" || schema == "public" => name.clone(),
        parts => parts.join("."),
    })
}
