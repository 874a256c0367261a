//! PostgreSQL types by OID: names, sizes, modifiers, and which convert into
//! which without being asked.

use crate::error::{Result, SqlError};

/// A PostgreSQL type, by its OID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    /// The type's OID, such as 23 for `int4`.
    pub oid: u32,
    /// Bytes, or -1 when variable.
    pub size: i16,
    /// Type modifier, -1 when none.
    pub modifier: i32,
}

/// What is known of a type: OID, catalog name, name as `format_type` shows it,
/// size, OID of its array type, category letter of `pg_type`.
pub(crate) struct Info {
    pub oid: u32,
    pub name: &'static str,
    pub display: &'static str,
    pub size: i16,
    pub array: u32,
    pub category: char,
}

macro_rules! types {
    ($($constant:ident $oid:literal $name:literal $display:literal $size:literal $array:literal $category:literal;)*) => {
        impl Type {
            $(
                #[doc = concat!("`", $display, "`")]
                pub const $constant: Type = Type { oid: $oid, size: $size, modifier: -1 };
            )*
        }
        pub(crate) const TYPES: &[Info] = &[
            $(Info { oid: $oid, name: $name, display: $display, size: $size, array: $array, category: $category },)*
        ];
    };
}

types! {
    BOOL 16 "bool" "boolean" 1 1000 'B';
    BYTEA 17 "bytea" "bytea" -1 1001 'U';
    CHAR 18 "char" "\"char\"" 1 1002 'Z';
    NAME 19 "name" "name" 64 1003 'S';
    INT8 20 "int8" "bigint" 8 1016 'N';
    INT2 21 "int2" "smallint" 2 1005 'N';
    INT2VECTOR 22 "int2vector" "int2vector" -1 1006 'A';
    INT4 23 "int4" "integer" 4 1007 'N';
    REGPROC 24 "regproc" "regproc" 4 1008 'N';
    TEXT 25 "text" "text" -1 1009 'S';
    OID 26 "oid" "oid" 4 1028 'N';
    OIDVECTOR 30 "oidvector" "oidvector" -1 1013 'A';
    JSON 114 "json" "json" -1 199 'U';
    XID 28 "xid" "xid" 4 1011 'U';
    FLOAT4 700 "float4" "real" 4 1021 'N';
    FLOAT8 701 "float8" "double precision" 8 1022 'N';
    UNKNOWN 705 "unknown" "unknown" -2 0 'X';
    INET 869 "inet" "inet" -1 1041 'I';
    BPCHAR 1042 "bpchar" "character" -1 1014 'S';
    VARCHAR 1043 "varchar" "character varying" -1 1015 'S';
    DATE 1082 "date" "date" 4 1182 'D';
    TIME 1083 "time" "time without time zone" 8 1183 'D';
    TIMESTAMP 1114 "timestamp" "timestamp without time zone" 8 1115 'D';
    TIMESTAMPTZ 1184 "timestamptz" "timestamp with time zone" 8 1185 'D';
    INTERVAL 1186 "interval" "interval" 16 1187 'T';
    TIMETZ 1266 "timetz" "time with time zone" 12 1270 'D';
    NUMERIC 1700 "numeric" "numeric" -1 1231 'N';
    REGCLASS 2205 "regclass" "regclass" 4 2210 'N';
    REGTYPE 2206 "regtype" "regtype" 4 2211 'N';
    RECORD 2249 "record" "record" -1 2287 'P';
    VOID 2278 "void" "void" 4 0 'P';
    UUID 2950 "uuid" "uuid" 16 2951 'U';
    JSONB 3802 "jsonb" "jsonb" -1 3807 'U';
    REGNAMESPACE 4089 "regnamespace" "regnamespace" 4 4090 'N';
}

/// Longest text that a bounded type holds, 10,485,760 as in PostgreSQL.
const MAX_LENGTH: u64 = 10_485_760;

impl Type {
    /// The type of an OID, if it is one of ours.
    pub fn from_oid(oid: u32) -> Option<Type> {
        if let Some(info) = info(oid) {
            return Some(Type {
                oid,
                size: info.size,
                modifier: -1,
            });
        }
        element_info(oid).map(|_| Type {
            oid,
            size: -1,
            modifier: -1,
        })
    }

    /// With a modifier.
    pub const fn with_modifier(mut self, modifier: i32) -> Type {
        self.modifier = modifier;
        self
    }

    /// The type without its modifier.
    pub const fn plain(self) -> Type {
        self.with_modifier(-1)
    }

    /// The same type whatever the modifiers say.
    pub const fn is(self, other: Type) -> bool {
        self.oid == other.oid
    }

    /// The array type that has this one as its element.
    pub fn array(self) -> Option<Type> {
        let array = info(self.oid)?.array;
        (array != 0).then_some(Type {
            oid: array,
            size: -1,
            modifier: -1,
        })
    }

    /// The element type of an array type.
    pub fn element(self) -> Option<Type> {
        if self.is(Type::INT2VECTOR) {
            return Some(Type::INT2);
        }
        if self.is(Type::OIDVECTOR) {
            return Some(Type::OID);
        }
        element_info(self.oid).map(|info| Type {
            oid: info.oid,
            size: info.size,
            modifier: -1,
        })
    }

    /// As `pg_type.typname` has it.
    pub fn name(self) -> String {
        match info(self.oid) {
            Some(info) => info.name.to_owned(),
            None => match element_info(self.oid) {
                Some(info) => format!("_{}", info.name),
                None => self.oid.to_string(),
            },
        }
    }

    /// As `format_type` shows it without a modifier, which is how messages
    /// spell types.
    pub fn display(self) -> String {
        match info(self.oid) {
            Some(info) => info.display.to_owned(),
            None => match element_info(self.oid) {
                Some(info) => format!("{}[]", info.display),
                None => "???".to_owned(),
            },
        }
    }

    /// As `format_type` shows it with its modifier.
    pub fn display_full(self) -> String {
        let base = self.display();
        if self.modifier < 0 {
            return base;
        }
        match self.oid {
            1042 | 1043 => format!("{base}({})", self.modifier - 4),
            1700 => {
                let (precision, scale) = numeric_modifier(self.modifier);
                format!("{base}({precision},{scale})")
            }
            1083 | 1114 | 1184 | 1266 => match base.split_once(' ') {
                Some((first, rest)) => format!("{first}({}) {rest}", self.modifier),
                None => base,
            },
            _ => base,
        }
    }

    pub(crate) const fn is_int(self) -> bool {
        matches!(self.oid, 20 | 21 | 23)
    }

    /// `oid` and the types that are one underneath.
    pub(crate) const fn is_oid(self) -> bool {
        matches!(self.oid, 24 | 26 | 28 | 2205 | 2206 | 4089)
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(self.oid, 700 | 701)
    }

    pub(crate) const fn is_number(self) -> bool {
        self.is_int() || self.is_float() || self.oid == 1700
    }

    pub(crate) const fn is_text(self) -> bool {
        matches!(self.oid, 18 | 19 | 25 | 1042 | 1043)
    }

    pub(crate) const fn is_unknown(self) -> bool {
        self.oid == 705
    }

    pub(crate) const fn is_datetime(self) -> bool {
        matches!(self.oid, 1082 | 1114 | 1184)
    }

    /// Position in the ladder along which numbers widen by themselves.
    pub(crate) const fn rank(self) -> u8 {
        match self.oid {
            21 => 1,
            23 => 2,
            20 => 3,
            1700 => 4,
            700 => 5,
            701 => 6,
            _ => 0,
        }
    }
}

fn info(oid: u32) -> Option<&'static Info> {
    TYPES.iter().find(|info| info.oid == oid)
}

fn element_info(array: u32) -> Option<&'static Info> {
    TYPES
        .iter()
        .find(|info| info.array == array && info.array != 0)
}

/// Precision and scale of a numeric's modifier.
pub(crate) fn numeric_modifier(modifier: i32) -> (i32, i32) {
    let packed = modifier - 4;
    (packed >> 16, packed & 0xffff)
}

/// The type that `name` names, with its modifiers as written.
pub(crate) fn by_name(name: &str, modifiers: &[u64]) -> Result<Type> {
    let lower = name.to_ascii_lowercase();
    let ty = match lower.as_str() {
        "int" | "integer" | "int4" => Type::INT4,
        "smallint" | "int2" => Type::INT2,
        "bigint" | "int8" => Type::INT8,
        "real" | "float4" => Type::FLOAT4,
        "float" => match modifiers.first() {
            Some(1..=24) => return Ok(Type::FLOAT4),
            _ => return Ok(Type::FLOAT8),
        },
        "double precision" | "float8" => Type::FLOAT8,
        "numeric" | "decimal" | "dec" => Type::NUMERIC,
        "boolean" | "bool" => Type::BOOL,
        "varchar" | "character varying" => Type::VARCHAR,
        "character" | "char" => Type::BPCHAR,
        other => match TYPES.iter().find(|info| info.name == other) {
            Some(info) => Type {
                oid: info.oid,
                size: info.size,
                modifier: -1,
            },
            None => {
                return Err(SqlError::new(
                    "42704",
                    format!("type \"{name}\" does not exist"),
                ));
            }
        },
    };
    let modifier = match (ty.oid, modifiers) {
        (_, []) if matches!(lower.as_str(), "char" | "character") => 5,
        (_, []) => -1,
        (1042 | 1043, [length, ..]) => {
            if *length == 0 {
                return Err(SqlError::new(
                    "22023",
                    format!("length for type {lower} must be at least 1"),
                ));
            }
            if *length > MAX_LENGTH {
                return Err(SqlError::new(
                    "22023",
                    format!("length for type {lower} cannot exceed {MAX_LENGTH}"),
                ));
            }
            i32::try_from(*length).unwrap_or(i32::MAX - 4) + 4
        }
        (1700, [precision, rest @ ..]) => {
            let scale = rest.first().copied().unwrap_or(0);
            // DSQL's numeric ends at 38 digits.
            if *precision == 0 || *precision > 38 {
                return Err(SqlError::new(
                    "22023",
                    format!("NUMERIC precision {precision} must be between 1 and 38"),
                ));
            }
            if scale > *precision {
                return Err(SqlError::new(
                    "22023",
                    format!("NUMERIC scale {scale} must be between 0 and precision {precision}"),
                ));
            }
            i32::try_from((precision << 16) | scale).unwrap_or(0) + 4
        }
        (1083 | 1114 | 1184 | 1266, [digits, ..]) => i32::try_from((*digits).min(6)).unwrap_or(6),
        _ => -1,
    };
    Ok(ty.with_modifier(modifier))
}
