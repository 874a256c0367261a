//! A client as the protocol layer is one, without the wire.

#![allow(dead_code, clippy::unwrap_used)]

use fabric_engine::{Engine, Executed, Session, SqlError, TransactionStatus, Value};

/// What came back for one statement.
pub struct Answer {
    pub result: Result<Executed, SqlError>,
}

impl Answer {
    /// Rows in text format.
    pub fn text_rows(&self) -> Vec<Vec<Option<String>>> {
        let Ok(done) = &self.result else {
            return Vec::new();
        };
        let columns = done.columns.clone().unwrap_or_default();
        done.rows
            .iter()
            .map(|row| {
                row.iter()
                    .zip(columns.iter())
                    .map(|(value, column)| {
                        if value.is_null() {
                            return None;
                        }
                        let mut out = bytes::BytesMut::new();
                        value.encode(column.ty, false, &mut out).unwrap();
                        Some(String::from_utf8(out.to_vec()).unwrap())
                    })
                    .collect()
            })
            .collect()
    }
}

pub struct Client {
    pub session: Session,
    /// The time at which everything happens, unless moved.
    pub now_us: u64,
}

impl Client {
    pub fn new(engine: &Engine) -> Client {
        Client {
            session: engine.session("admin"),
            now_us: 0,
        }
    }

    /// One statement of the extended protocol, and Sync.
    pub fn extended(&mut self, sql: &str) -> Answer {
        self.with_params(sql, &[])
    }

    pub fn with_params(&mut self, sql: &str, params: &[Value]) -> Answer {
        let now = self.now_us;
        let result = self
            .session
            .prepare(sql, &[])
            .and_then(|prepared| self.session.execute(&prepared, params, now))
            .and_then(|done| self.decide(done));
        let result = result.and_then(|done| {
            if self.session.pending_commit().is_some() {
                self.session.commit(now)?;
            }
            Ok(done)
        });
        if result.is_err() {
            self.session.abort_implicit();
        }
        Answer { result }
    }

    fn decide(&mut self, done: Executed) -> Result<Executed, SqlError> {
        if done.commit {
            self.session.commit(self.now_us)?;
        }
        Ok(done)
    }

    /// One simple Query message: its answers, up to the first error.
    pub fn simple(&mut self, script: &str) -> Vec<Answer> {
        let now = self.now_us;
        let mut answers = Vec::new();
        let mut go = |client: &mut Client| -> Result<(), SqlError> {
            for parsed in client.session.parse(script)? {
                let prepared = client.session.plan(&parsed, &[])?;
                let done = client.session.execute(&prepared, &[], now)?;
                let done = client.decide(done)?;
                answers.push(Answer { result: Ok(done) });
            }
            if client.session.pending_commit().is_some() {
                client.session.commit(now)?;
            }
            Ok(())
        };
        if let Err(error) = go(self) {
            self.session.abort_implicit();
            answers.push(Answer { result: Err(error) });
        }
        answers
    }

    /// Rows of one statement that must succeed, NULL as `NULL`.
    pub fn rows(&mut self, sql: &str) -> Vec<Vec<String>> {
        let answer = self.extended(sql);
        if let Err(error) = &answer.result {
            panic!("{sql}: {} {}", error.sqlstate, error.message);
        }
        answer
            .text_rows()
            .into_iter()
            .map(|row| {
                row.into_iter()
                    .map(|cell| cell.unwrap_or("NULL".to_owned()))
                    .collect()
            })
            .collect()
    }

    /// A statement that must succeed.
    pub fn ok(&mut self, sql: &str) -> Executed {
        match self.extended(sql).result {
            Ok(done) => done,
            Err(error) => panic!("{sql}: {} {}", error.sqlstate, error.message),
        }
    }

    /// The error of a statement that must fail.
    pub fn error(&mut self, sql: &str) -> SqlError {
        match self.extended(sql).result {
            Ok(done) => panic!("{sql}: {}", done.tag),
            Err(error) => error,
        }
    }

    pub fn in_block(&self) -> bool {
        self.session.status() != TransactionStatus::Idle
    }
}

/// A file of the reference data, where there is one.
pub fn reference(name: &str) -> Option<serde_json::Value> {
    let path = format!(
        "{}/../../../../shared/reference/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}
