//! Regular expressions: the part of PostgreSQL's that catalog queries and
//! people use. Backtracking, with a budget, so that no pattern hangs.

use crate::error::{Result, SqlError};

/// Steps that one match may take.
const BUDGET: u32 = 1_000_000;

/// How deep a match may recurse: once for every piece and repetition of a group.
const MAX_RECURSION: u32 = 1_500;

/// How deep groups may nest.
const MAX_DEPTH: usize = 50;

#[derive(Debug)]
enum Item {
    Any,
    Char(char),
    Class {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
    Start,
    End,
    Group(Vec<Vec<Piece>>),
}

#[derive(Debug)]
struct Piece {
    item: Item,
    min: usize,
    max: usize,
}

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Regex {
    alternatives: Vec<Vec<Piece>>,
    ignore_case: bool,
}

fn invalid(what: &str) -> SqlError {
    SqlError::new("2201B", format!("invalid regular expression: {what}"))
}

struct Parser<'p> {
    chars: std::iter::Peekable<std::str::Chars<'p>>,
    depth: usize,
}

impl Parser<'_> {
    fn alternatives(&mut self) -> Result<Vec<Vec<Piece>>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SqlError::simulator("so deep a regular expression"));
        }
        let mut all = vec![Vec::new()];
        while let Some(&c) = self.chars.peek() {
            match c {
                ')' if self.depth > 1 => break,
                '|' => {
                    self.chars.next();
                    all.push(Vec::new());
                }
                _ => {
                    let piece = self.piece()?;
                    if let Some(last) = all.last_mut() {
                        last.push(piece);
                    }
                }
            }
        }
        self.depth -= 1;
        Ok(all)
    }

    fn piece(&mut self) -> Result<Piece> {
        let item = match self.chars.next() {
            None => return Err(invalid("unexpected end")),
            Some('.') => Item::Any,
            Some('^') => Item::Start,
            Some('$') => Item::End,
            Some('(') => {
                if self.chars.next_if_eq(&'?').is_some() && self.chars.next() != Some(':') {
                    return Err(SqlError::simulator("look-around in a regular expression"));
                }
                let group = self.alternatives()?;
                if self.chars.next() != Some(')') {
                    return Err(invalid("parentheses () not balanced"));
                }
                Item::Group(group)
            }
            Some('[') => self.class()?,
            Some('\\') => self.escape()?,
            Some('*' | '+' | '?') => return Err(invalid("quantifier operand invalid")),
            Some(c) => Item::Char(c),
        };
        let (min, max) = match self.chars.peek() {
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('?') => (0, 1),
            Some('{') => {
                self.chars.next();
                let (min, max) = self.bounds()?;
                return Ok(Piece { item, min, max });
            }
            _ => {
                return Ok(Piece {
                    item,
                    min: 1,
                    max: 1,
                });
            }
        };
        self.chars.next();
        if self.chars.peek() == Some(&'?') {
            return Err(SqlError::simulator("a non-greedy regular expression"));
        }
        Ok(Piece { item, min, max })
    }

    fn bounds(&mut self) -> Result<(usize, usize)> {
        let text: String = self.chars.by_ref().take_while(|c| *c != '}').collect();
        let number = |text: &str| {
            text.parse::<usize>()
                .map_err(|_| invalid("invalid repetition count(s)"))
        };
        match text.split_once(',') {
            None => number(&text).map(|n| (n, n)),
            Some((min, "")) => Ok((number(min)?, usize::MAX)),
            Some((min, max)) => Ok((number(min)?, number(max)?)),
        }
    }

    fn escape(&mut self) -> Result<Item> {
        let class = |ranges: &[(char, char)], negated| Item::Class {
            ranges: ranges.to_vec(),
            negated,
        };
        let digits = [('0', '9')];
        let words = [('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')];
        let spaces = [(' ', ' '), ('\t', '\r')];
        Ok(match self.chars.next() {
            None => return Err(invalid("invalid escape \\ sequence")),
            Some('d') => class(&digits, false),
            Some('D') => class(&digits, true),
            Some('w') => class(&words, false),
            Some('W') => class(&words, true),
            Some('s') => class(&spaces, false),
            Some('S') => class(&spaces, true),
            Some('n') => Item::Char('\n'),
            Some('t') => Item::Char('\t'),
            Some(c) if c.is_ascii_alphanumeric() => {
                return Err(SqlError::simulator(format!(
                    "\\{c} in a regular expression"
                )));
            }
            Some(c) => Item::Char(c),
        })
    }

    fn class(&mut self) -> Result<Item> {
        let negated = self.chars.next_if_eq(&'^').is_some();
        let mut ranges = Vec::new();
        let mut first = true;
        loop {
            let c = self
                .chars
                .next()
                .ok_or_else(|| invalid("brackets [] not balanced"))?;
            match c {
                ']' if !first => return Ok(Item::Class { ranges, negated }),
                '[' if self.chars.peek() == Some(&':') => {
                    let name: String = self
                        .chars
                        .by_ref()
                        .skip(1)
                        .take_while(|c| *c != ':')
                        .collect();
                    self.chars.next();
                    match name.as_str() {
                        "alpha" => ranges.extend([('a', 'z'), ('A', 'Z')]),
                        "digit" => ranges.push(('0', '9')),
                        "alnum" => ranges.extend([('a', 'z'), ('A', 'Z'), ('0', '9')]),
                        "space" => ranges.extend([(' ', ' '), ('\t', '\r')]),
                        "lower" => ranges.push(('a', 'z')),
                        "upper" => ranges.push(('A', 'Z')),
                        _ => return Err(invalid("invalid character class")),
                    }
                }
                '\\' => {
                    let c = self
                        .chars
                        .next()
                        .ok_or_else(|| invalid("invalid escape \\ sequence"))?;
                    ranges.push((c, c));
                }
                low => {
                    let mut ahead = self.chars.clone();
                    let range =
                        ahead.next() == Some('-') && ahead.peek().is_some_and(|c| *c != ']');
                    if range {
                        self.chars.next();
                        let high = self.chars.next().unwrap_or(low);
                        ranges.push((low, high));
                    } else {
                        ranges.push((low, low));
                    }
                }
            }
            first = false;
        }
    }
}

impl Regex {
    pub(crate) fn new(pattern: &str, ignore_case: bool) -> Result<Regex> {
        let mut parser = Parser {
            chars: pattern.chars().peekable(),
            depth: 0,
        };
        let alternatives = parser.alternatives()?;
        if parser.chars.next().is_some() {
            return Err(invalid("parentheses () not balanced"));
        }
        Ok(Regex {
            alternatives,
            ignore_case,
        })
    }

    /// Whether the pattern is found anywhere in the text.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool> {
        let fold = |c: char| {
            if self.ignore_case {
                c.to_ascii_lowercase()
            } else {
                c
            }
        };
        let text: Vec<char> = text.chars().map(fold).collect();
        let mut matcher = Matcher {
            text: &text,
            fold: &fold,
            budget: BUDGET,
            depth: 0,
        };
        for start in 0..=text.len() {
            if matcher.any(&self.alternatives, start, &mut |_, _| Ok(true))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

struct Matcher<'m> {
    text: &'m [char],
    fold: &'m dyn Fn(char) -> char,
    budget: u32,
    /// Calls within each other, which take stack.
    depth: u32,
}

type Then<'t> = dyn FnMut(&mut Matcher<'_>, usize) -> Result<bool> + 't;

impl Matcher<'_> {
    fn any(&mut self, all: &[Vec<Piece>], at: usize, then: &mut Then<'_>) -> Result<bool> {
        for pieces in all {
            if self.pieces(pieces, at, then)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn pieces(&mut self, pieces: &[Piece], at: usize, then: &mut Then<'_>) -> Result<bool> {
        match pieces.split_first() {
            None => then(self, at),
            Some((piece, rest)) => self.repeat(piece, rest, 0, at, then),
        }
    }

    fn repeat(
        &mut self,
        piece: &Piece,
        rest: &[Piece],
        done: usize,
        at: usize,
        then: &mut Then<'_>,
    ) -> Result<bool> {
        self.depth += 1;
        if self.depth > MAX_RECURSION {
            return Err(SqlError::simulator("so deep a regular expression"));
        }
        let found = self.repeat_once(piece, rest, done, at, then);
        self.depth -= 1;
        found
    }

    fn repeat_once(
        &mut self,
        piece: &Piece,
        rest: &[Piece],
        done: usize,
        at: usize,
        then: &mut Then<'_>,
    ) -> Result<bool> {
        self.budget = self
            .budget
            .checked_sub(1)
            .ok_or_else(|| SqlError::simulator("so costly a regular expression"))?;
        // One character a step needs no recursion.
        if !matches!(piece.item, Item::Group(_)) {
            let mut ends = vec![at];
            let mut end = at;
            while ends.len() <= piece.max.min(self.text.len() + 1) {
                match self.one(&piece.item, end) {
                    Some(next) if next > end || ends.len() <= piece.min => {
                        end = next;
                        ends.push(end);
                    }
                    _ => break,
                }
                if ends.len() > piece.max {
                    break;
                }
            }
            while ends.len() > piece.min {
                let Some(end) = ends.pop() else { break };
                if self.pieces(rest, end, then)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        if let Item::Group(all) = &piece.item
            && done < piece.max
        {
            let found = self.any(all, at, &mut |matcher, end| {
                // An empty repetition would never end.
                if end == at && done >= piece.min {
                    return Ok(false);
                }
                matcher.repeat(piece, rest, done + 1, end, then)
            })?;
            if found {
                return Ok(true);
            }
        }
        if done >= piece.min {
            return self.pieces(rest, at, then);
        }
        Ok(false)
    }

    fn one(&self, item: &Item, at: usize) -> Option<usize> {
        match item {
            Item::Start => (at == 0).then_some(at),
            Item::End => (at == self.text.len()).then_some(at),
            Item::Group(_) => None,
            Item::Any => self.text.get(at).map(|_| at + 1),
            Item::Char(c) => (self.text.get(at) == Some(&(self.fold)(*c))).then_some(at + 1),
            Item::Class { ranges, negated } => {
                let c = *self.text.get(at)?;
                let within = ranges
                    .iter()
                    .any(|(low, high)| ((self.fold)(*low)..=(self.fold)(*high)).contains(&c));
                (within != *negated).then_some(at + 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_postgresql() {
        for (pattern, text, matches) in [
            ("^(streams)$", "streams", true),
            ("^(streams)$", "streamss", false),
            ("^(pg_.*|sys)$", "pg_class", true),
            ("a+b", "xaaab", true),
            ("^a{2,3}$", "aaaa", false),
            ("^(ab)*$", "ababab", true),
            ("^(ab)+c", "abac", false),
            ("[^0-9]", "123", false),
            ("^[a-c_]+\\d$", "ab_7", true),
            ("x|", "", true),
        ] {
            let regex = Regex::new(pattern, false).unwrap();
            assert_eq!(regex.is_match(text).unwrap(), matches, "{pattern} {text}");
        }
        assert!(Regex::new("ABC", true).unwrap().is_match("xabcx").unwrap());
        assert!(Regex::new("(", false).is_err());
        // Costly patterns are given up, not waited for.
        let slow = Regex::new("^(a*)*(a*)*(a*)*b$", false).unwrap();
        assert!(slow.is_match(&"a".repeat(200)).is_err());
    }
}
