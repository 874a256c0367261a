//! From a script's text to a [`Script`].
//!
//! ```text
//! # What happens, and what must not.
//! name: lost update
//! notation: P4
//! table stock: id int PRIMARY KEY, quantity int NOT NULL
//! rows stock: (1, 100)
//!
//! 1  T1  BEGIN
//! 2  T1  SELECT quantity FROM {stock}
//! 3  T1  COMMIT
//!
//! final: SELECT quantity FROM {stock}
//! anomaly: T1 committed and step 2 did not read (100)
//! ```
//!
//! A check that could never hold (on rows of a step that reads none, on a COMMIT
//! that is not there) is refused here, since it would pass for "no anomaly" for ever.

use crate::script::{Fact, Place, Rows, Script, ScriptError, Step, Suite, Table, Verb};

const KEYS: &str = "a comment, `name:`, `notation:`, `note:`, `table NAME:`, `rows NAME:`, \
                    a step `N SESSION SQL`, `final:` or `anomaly:`";

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The first thing in it that does not fit, with its line and step.
    pub fn parse(suite: Suite, id: &str, text: &str) -> Result<Script, ScriptError> {
        let mut reader = Reader::new(suite, id);
        for (index, line) in text.lines().enumerate() {
            reader.line = index + 1;
            reader
                .take(line.trim_end())
                .map_err(|problem| reader.refuse(problem))?;
        }
        reader.finish()
    }
}

struct Reader {
    script: Script,
    /// Line of each step.
    lines: Vec<usize>,
    /// Checks and their lines; they may name steps that come later.
    anomalies: Vec<(usize, String)>,
    line: usize,
    /// The step that is being read.
    step: Option<usize>,
}

impl Reader {
    fn new(suite: Suite, id: &str) -> Reader {
        Reader {
            script: Script {
                id: id.to_owned(),
                suite,
                name: String::new(),
                notation: None,
                about: String::new(),
                note: None,
                tables: Vec::new(),
                sessions: Vec::new(),
                steps: Vec::new(),
                final_sql: String::new(),
                anomalies: Vec::new(),
            },
            lines: Vec::new(),
            anomalies: Vec::new(),
            line: 0,
            step: None,
        }
    }

    fn refuse(&self, problem: String) -> ScriptError {
        self.refuse_at(
            match self.step {
                Some(step) => Place::Step(step, self.line),
                None => Place::Line(self.line),
            },
            problem,
        )
    }

    fn refuse_at(&self, place: Place, problem: String) -> ScriptError {
        ScriptError {
            script: format!("{}/{}", self.script.suite.name(), self.script.id),
            place,
            problem,
        }
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        self.step = None;
        if line.trim().is_empty() {
            return Ok(());
        }
        if let Some(comment) = line.strip_prefix('#') {
            if self.script.name.is_empty() {
                let about = &mut self.script.about;
                if !about.is_empty() {
                    about.push(' ');
                }
                about.push_str(comment.trim());
            }
            return Ok(());
        }
        if line.starts_with(|c: char| c.is_ascii_digit()) {
            return self.take_step(line);
        }
        let (key, value) = line
            .split_once(':')
            .ok_or_else(|| format!("'{line}' is none of {KEYS}"))?;
        let value = value.trim();
        if value.is_empty() {
            return Err(format!("nothing stands behind `{key}:`"));
        }
        match key.split_whitespace().collect::<Vec<_>>()[..] {
            ["name"] => set(&mut self.script.name, value, "name"),
            ["final"] => set(&mut self.script.final_sql, value, "final"),
            ["notation"] => {
                self.script.notation = Some(value.to_owned());
                Ok(())
            }
            ["note"] => {
                self.script.note = Some(value.to_owned());
                Ok(())
            }
            ["table", name] => self.take_table(name, value),
            ["rows", name] => {
                let mut tables = self.script.tables.iter_mut();
                let table = tables
                    .find(|table| table.name == name)
                    .ok_or_else(|| format!("no line `table {name}:` stands before it"))?;
                set(&mut table.rows, value, "rows")
            }
            ["anomaly"] => {
                self.anomalies.push((self.line, value.to_owned()));
                Ok(())
            }
            _ => Err(format!("'{key}:' is none of {KEYS}")),
        }
    }

    fn take_table(&mut self, name: &str, columns: &str) -> Result<(), String> {
        if !name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
            return Err(format!(
                "table name '{name}' has other characters than a to z and _"
            ));
        }
        if self.script.tables.iter().any(|table| table.name == name) {
            return Err(format!("table {name} is there twice"));
        }
        self.script.tables.push(Table {
            name: name.to_owned(),
            columns: columns.to_owned(),
            rows: String::new(),
        });
        Ok(())
    }

    fn take_step(&mut self, line: &str) -> Result<(), String> {
        let (number, rest) = split_word(line);
        let (session, sql) = split_word(rest);
        let wanted = self.script.steps.len() + 1;
        self.step = Some(wanted);
        if number != wanted.to_string() {
            return Err(format!(
                "its number is {number}; steps count from 1 without a gap"
            ));
        }
        if session.is_empty() || sql.is_empty() {
            return Err("a step is `N SESSION SQL`, such as `3 T1 COMMIT`".to_owned());
        }
        let verb = verb(sql)?;
        self.check_tables(sql)?;
        let session = match self.script.sessions.iter().position(|name| name == session) {
            Some(index) => index,
            None => {
                self.script.sessions.push(session.to_owned());
                self.script.sessions.len() - 1
            }
        };
        self.check_order(session, verb)?;
        self.script.steps.push(Step {
            session,
            verb,
            sql: sql.to_owned(),
        });
        self.lines.push(self.line);
        Ok(())
    }

    /// A connection has one transaction; what comes after it stands alone.
    fn check_order(&self, session: usize, verb: Verb) -> Result<(), String> {
        let before = |verbs: &[Verb]| {
            let steps = self.script.steps.iter();
            steps
                .filter(|step| step.session == session)
                .any(|step| verbs.contains(&step.verb))
        };
        let name = &self.script.sessions[session];
        let begun = before(&[Verb::Begin]);
        match verb {
            Verb::Begin if begun => Err(format!("{name} has begun before; once is accepted")),
            Verb::Commit | Verb::Rollback if !begun || before(&[Verb::Commit, Verb::Rollback]) => {
                Err(format!("{name} has no transaction that it could end"))
            }
            _ => Ok(()),
        }
    }

    /// Every `{name}` must be a table of the script.
    fn check_tables(&self, sql: &str) -> Result<(), String> {
        let mut rest = sql;
        while let Some((_, behind)) = rest.split_once('{') {
            let (name, behind) = behind
                .split_once('}')
                .ok_or_else(|| "`{` has no `}`".to_owned())?;
            if !self.script.tables.iter().any(|table| table.name == name) {
                let known: Vec<&str> = self.script.tables.iter().map(|t| &*t.name).collect();
                return Err(format!(
                    "there is no table {name}; there is {}",
                    known.join(", ")
                ));
            }
            rest = behind;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Script, ScriptError> {
        let whole = |problem: &str| self.refuse_at(Place::Whole, problem.to_owned());
        let script = &self.script;
        if script.name.is_empty() {
            return Err(whole("a line `name:` is missing"));
        }
        if script.tables.is_empty() {
            return Err(whole("a line `table NAME:` is missing"));
        }
        if script.final_sql.is_empty() {
            return Err(whole("a line `final:` is missing"));
        }
        if self.anomalies.is_empty() {
            return Err(whole("a line `anomaly:` is missing"));
        }
        for (session, name) in script.sessions.iter().enumerate() {
            let has = |verbs: &[Verb]| {
                let mut steps = script.steps.iter();
                steps.any(|step| step.session == session && verbs.contains(&step.verb))
            };
            if has(&[Verb::Begin]) && !has(&[Verb::Commit, Verb::Rollback]) {
                return Err(whole(&format!("{name} does not end what it begins")));
            }
        }
        self.check_tables(&script.final_sql)
            .map_err(|problem| whole(&format!("final: {problem}")))?;
        for (line, text) in &self.anomalies {
            let facts = text.split(" and ").map(|fact| self.fact(fact.trim()));
            let facts: Result<Vec<Fact>, String> = facts.collect();
            let facts = facts.map_err(|problem| self.refuse_at(Place::Line(*line), problem))?;
            self.script.anomalies.push(facts);
        }
        Ok(self.script)
    }

    fn fact(&self, text: &str) -> Result<Fact, String> {
        if let Some(rest) = text.strip_prefix("step ") {
            let (number, rest) = split_word(rest);
            return self.fact_of_step(number, rest);
        }
        if let Some(rest) = text.strip_prefix("final ") {
            return match (rest.strip_prefix("is not "), rest.strip_prefix("is ")) {
                (Some(listed), _) => Ok(Fact::Final {
                    rows: rows(listed)?,
                    holds: false,
                }),
                (None, Some(listed)) => Ok(Fact::Final {
                    rows: rows(listed)?,
                    holds: true,
                }),
                (None, None) => Err(format!(
                    "'{text}' is neither `final is ROWS` nor `final is not ROWS`"
                )),
            };
        }
        let (session, rest) = split_word(text);
        let holds = match rest {
            "committed" => true,
            "did not commit" => false,
            _ => {
                return Err(format!(
                    "'{text}' is none of `SESSION committed`, `SESSION did not commit`, \
                     `step N read ROWS`, `step N did not read ROWS`, `step N touched COUNT`, \
                     `final is ROWS`, `final is not ROWS`"
                ));
            }
        };
        let mut sessions = self.script.sessions.iter();
        let session = sessions
            .position(|name| name == session)
            .ok_or_else(|| format!("there is no connection {session}"))?;
        let mut steps = self.script.steps.iter();
        if !steps.any(|step| step.session == session && step.verb == Verb::Commit) {
            return Err(format!("{} has no COMMIT", self.script.sessions[session]));
        }
        Ok(Fact::Committed { session, holds })
    }

    fn fact_of_step(&self, number: &str, rest: &str) -> Result<Fact, String> {
        let step = number
            .parse::<usize>()
            .ok()
            .and_then(|n| n.checked_sub(1))
            .filter(|index| *index < self.script.steps.len())
            .ok_or_else(|| {
                format!(
                    "there is no step {number}; there are 1 to {}",
                    self.script.steps.len()
                )
            })?;
        let verb = self.script.steps[step].verb;
        if let Some(count) = rest.strip_prefix("touched ") {
            if verb != Verb::Write {
                return Err(format!("step {number} writes nothing"));
            }
            let rows = count
                .parse()
                .map_err(|_| format!("'{count}' is no count of rows"))?;
            return Ok(Fact::Touched { step, rows });
        }
        let (listed, holds) = match (
            rest.strip_prefix("read "),
            rest.strip_prefix("did not read "),
        ) {
            (Some(listed), _) => (listed, true),
            (None, Some(listed)) => (listed, false),
            (None, None) => {
                return Err(format!(
                    "'{rest}' is none of `read ROWS`, `did not read ROWS`, `touched COUNT`"
                ));
            }
        };
        if verb != Verb::Select {
            return Err(format!("step {number} reads nothing"));
        }
        Ok(Fact::Read {
            step,
            rows: rows(listed)?,
            holds,
        })
    }
}

fn set(field: &mut String, value: &str, key: &str) -> Result<(), String> {
    if !field.is_empty() {
        return Err(format!("`{key}` is there twice"));
    }
    value.clone_into(field);
    Ok(())
}

fn split_word(text: &str) -> (&str, &str) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim()),
        None => (text, ""),
    }
}

fn verb(sql: &str) -> Result<Verb, String> {
    if sql.contains(';') {
        return Err("a step is one statement, without `;`".to_owned());
    }
    match sql.split_whitespace().next().unwrap_or_default() {
        "BEGIN" | "COMMIT" | "ROLLBACK" if sql.contains(' ') => Err(format!(
            "'{sql}' says more than the word alone; the level is not the script's"
        )),
        "BEGIN" => Ok(Verb::Begin),
        "COMMIT" => Ok(Verb::Commit),
        "ROLLBACK" => Ok(Verb::Rollback),
        "SELECT" => Ok(Verb::Select),
        "INSERT" | "UPDATE" | "DELETE" => Ok(Verb::Write),
        other => Err(format!(
            "'{other}' is none of BEGIN, COMMIT, ROLLBACK, SELECT, INSERT, UPDATE, DELETE"
        )),
    }
}

/// `(1, 10) (2, null)`, or `nothing`.
fn rows(text: &str) -> Result<Rows, String> {
    let problem = || format!("'{text}' is neither rows, such as `(1, 10) (2, 20)`, nor `nothing`");
    let mut rows = Rows::new();
    if text.trim() == "nothing" {
        return Ok(rows);
    }
    let mut rest = text.trim();
    while !rest.is_empty() {
        let inner = rest.strip_prefix('(').ok_or_else(problem)?;
        let (row, behind) = inner.split_once(')').ok_or_else(problem)?;
        let cells = row.split(',').map(str::trim).map(|cell| match cell {
            "" => Err(problem()),
            "null" => Ok(None),
            cell => Ok(Some(cell.to_owned())),
        });
        rows.push(cells.collect::<Result<_, _>>()?);
        rest = behind.trim_start();
    }
    if rows.is_empty() {
        return Err(problem());
    }
    rows.sort();
    Ok(rows)
}
