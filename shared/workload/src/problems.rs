//! What verification found to be wrong.

/// Problems that are kept and printed; the rest is only counted.
const KEPT: usize = 20;

/// What was found to be wrong, one line each.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    lines: Vec<String>,
    more: u64,
}

impl Problems {
    /// Adds one line.
    pub(crate) fn add(&mut self, line: String) {
        if self.lines.len() < KEPT {
            self.lines.push(line);
        } else {
            self.more += 1;
        }
    }

    /// At most [`KEPT`] lines; the last one says how many were left out.
    pub(crate) fn into_lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.truncate(KEPT - 1);
            self.lines
                .push(format!("and {} more problems", self.more + 1));
        }
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_problems_are_enough() {
        let mut problems = Problems::default();
        for seq in 0..20 {
            problems.add(format!("line {seq}"));
        }
        assert_eq!(problems.into_lines().len(), 20);
        let mut problems = Problems::default();
        for seq in 0..25 {
            problems.add(format!("line {seq}"));
        }
        let lines = problems.into_lines();
        assert_eq!(lines.len(), 20);
        assert_eq!(lines[18], "line 18");
        assert_eq!(lines[19], "and 6 more problems");
    }
}
