//! What concerns a row alone: NOT NULL, domains, CHECK, sizes; and rows in
//! messages.

use crate::catalog::{Column, Table};
use crate::error::{Result, SqlError};
use crate::sql::expr::{self, Ctx};
use crate::value::{Value, text};

/// Largest value outside of a key.
pub(super) const MAX_COLUMN: usize = 1 << 20;

/// Largest row.
pub(super) const MAX_ROW: usize = 2 << 20;

pub(super) fn column_list(table: &Table, slots: &[usize]) -> String {
    let names: Vec<&str> = slots
        .iter()
        .filter_map(|slot| table.columns.get(*slot))
        .map(|column| column.name.as_str())
        .collect();
    names.join(", ")
}

pub(super) fn value_list(table: &Table, slots: &[usize], row: &[Value]) -> String {
    let values: Vec<String> = slots
        .iter()
        .map(|slot| shown(row.get(*slot), table.columns.get(*slot)))
        .collect();
    values.join(", ")
}

pub(super) fn shown(value: Option<&Value>, column: Option<&Column>) -> String {
    match (value, column) {
        (None | Some(Value::Null), _) => "null".to_owned(),
        (Some(value), Some(column)) => text::to_text(value, column.ty),
        (Some(value), None) => text::to_text(value, crate::types::Type::TEXT),
    }
}

/// The DETAIL of an error about a row: its values, each cut short.
pub(super) fn failing_row(table: &Table, row: &[Value]) -> String {
    let values: Vec<String> = table
        .live()
        .map(|(slot, column)| {
            let full = shown(row.get(slot), Some(column));
            match full.char_indices().nth(64) {
                Some((end, _)) => format!("{}...", &full[..end]),
                None => full,
            }
        })
        .collect();
    format!("Failing row contains ({}).", values.join(", "))
}

/// NOT NULL, domains, CHECK and sizes: what concerns the row alone.
pub(crate) fn check_row(table: &Table, row: &[Value], cx: &Ctx<'_>) -> Result<()> {
    let mut width = 0;
    for (slot, column) in table.live() {
        let value = row.get(slot).unwrap_or(&Value::Null);
        if value.is_null() && column.not_null {
            return Err(SqlError::new(
                "23502",
                format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    column.name, table.name
                ),
            )
            .detail(failing_row(table, row)));
        }
        if let Some(domain) = &column.domain {
            if value.is_null() && domain.not_null {
                return Err(SqlError::new(
                    "23502",
                    format!("domain {} does not allow null values", domain.name),
                ));
            }
            for (name, check) in &domain.checks {
                if matches!(
                    expr::eval(check, cx, std::slice::from_ref(value))?,
                    Value::Bool(false)
                ) {
                    return Err(SqlError::new(
                        "23514",
                        format!(
                            "value for domain {} violates check constraint \"{name}\"",
                            domain.name
                        ),
                    ));
                }
            }
        }
        let bytes = value.width();
        if bytes > MAX_COLUMN && !table.primary.contains(&slot) {
            return Err(SqlError::new("54000", "maximum column size exceeded"));
        }
        width += bytes;
    }
    if width > MAX_ROW {
        return Err(SqlError::new("54000", "maximum row size exceeded"));
    }
    for check in &table.checks {
        if matches!(expr::eval(&check.expr, cx, row)?, Value::Bool(false)) {
            return Err(SqlError::new(
                "23514",
                format!(
                    "new row for relation \"{}\" violates check constraint \"{}\"",
                    table.name, check.name
                ),
            )
            .detail(failing_row(table, row)));
        }
    }
    Ok(())
}
