//! How numbers, parameters and their names are written for people.

use serde_json::Value;

/// `1 rep`, `2 reps`.
pub(crate) fn plural(n: usize, noun: &str) -> String {
    match n {
        1 => format!("1 {noun}"),
        _ => format!("{n} {noun}s"),
    }
}

/// Three significant digits or so: enough to compare, few enough to read.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        small if small < 9.995 => format!("{value:.2}"),
        medium if medium < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A number, or `-` where there is none.
pub(crate) fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

pub(crate) fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}

/// A parameter's value as one reads it.
pub(crate) fn parameter(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => values.iter().map(parameter).collect::<Vec<_>>().join(", "),
        // 25.0 is 25 to a reader.
        Value::Number(number) => number
            .as_f64()
            .map_or_else(|| number.to_string(), |n| n.to_string()),
        Value::Bool(_) | Value::Object(_) => value.to_string(),
    }
}

/// A parameter's name and unit, from its path: `retry.base_ms` is `base` in `ms`.
pub(crate) fn parameter_name(path: &str) -> (String, &'static str) {
    let name = path.rsplit('.').next().unwrap_or(path);
    for (suffix, unit) in [
        ("_ms", "ms"),
        ("_s", "s"),
        ("_bytes", "bytes"),
        ("_pct", "%"),
    ] {
        if let Some(name) = name.strip_suffix(suffix) {
            return (name.replace('_', " "), unit);
        }
    }
    (name.replace('_', " "), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        for (value, text) in [
            (0.0, "0.00"),
            (5.5241, "5.52"),
            (9.996, "10.0"),
            (44.44, "44.4"),
            (99.96, "100"),
            (182.4, "182"),
            (24_541.0, "24541"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(figure(None), "-");
    }

    #[test]
    fn parameters_are_named_with_their_unit() {
        assert_eq!(parameter_name("retry.base_ms"), ("base".to_owned(), "ms"));
        assert_eq!(
            parameter_name("payload_bytes"),
            ("payload".to_owned(), "bytes")
        );
        assert_eq!(parameter_name("writers"), ("writers".to_owned(), ""));
    }
}
