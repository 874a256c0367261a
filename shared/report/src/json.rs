//! How a summary is written down: the same value gives the same bytes.

use serde::Serialize;

/// Pretty JSON with a line per field, arrays of numbers on one line, and a
/// newline at the end.
///
/// # Errors
/// When the value has a map whose keys are no strings, or a number that is not
/// finite in a place where JSON has no null.
pub fn to_json<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    Ok(join_numbers(&serde_json::to_string_pretty(value)?))
}

/// Puts arrays of numbers and nulls on one line. It relies on the printer: one
/// element to a line, and line breaks within strings escaped.
fn join_numbers(pretty: &str) -> String {
    let lines: Vec<&str> = pretty.lines().collect();
    let mut out = String::with_capacity(pretty.len());
    let mut at = 0;
    while at < lines.len() {
        out.push_str(lines[at]);
        if lines[at].ends_with('[') {
            let numbers = lines[at + 1..]
                .iter()
                .take_while(|line| is_number(line))
                .count();
            let end = at + 1 + numbers;
            if numbers > 0
                && lines
                    .get(end)
                    .is_some_and(|line| line.trim_start().starts_with(']'))
            {
                let elements: Vec<&str> =
                    lines[at + 1..end].iter().map(|line| line.trim()).collect();
                out.push_str(&elements.join(" "));
                out.push_str(lines[end].trim_start());
                at = end;
            }
        }
        out.push('\n');
        at += 1;
    }
    out
}

fn is_number(line: &str) -> bool {
    let element = line.trim_start();
    let element = element.strip_suffix(',').unwrap_or(element);
    element == "null" || element.starts_with(|first: char| first.is_ascii_digit() || first == '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn numbers_are_joined_and_nothing_is_lost() {
        let value = json!({
            "empty": [], "mixed": [1, "a", [2, 3]], "numbers": [1, -2.5, null],
            "objects": [{"a": [1]}], "text": "ends with [", "tricky": ["5,", "1", "["],
        });
        let text = to_json(&value).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(text.contains("\"numbers\": [1, -2.5, null]"), "{text}");
        assert!(text.ends_with("}\n"));
    }
}
