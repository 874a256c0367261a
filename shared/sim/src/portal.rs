//! The extended protocol: Parse, Bind, Describe, Execute, Close.

use std::sync::Arc;

use engine::{Column, Prepared, SqlError, Value};

use crate::connection::{Connection, malformed, notices, text};
use crate::link::{Gone, Wire, error};
use crate::message::{Body, Formats};
use crate::reply::Replies;

/// A statement with its parameters, and how much of its result was fetched.
#[derive(Debug)]
pub(crate) struct Portal {
    prepared: Arc<Prepared>,
    params: Vec<Value>,
    formats: RowFormats,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    Bound,
    /// Executed; rows from `next` on were not fetched yet.
    Open {
        columns: Arc<[Column]>,
        rows: Vec<Vec<Value>>,
        next: usize,
        tag: String,
    },
    Done,
}

/// Which columns of a result are binary.
#[derive(Clone, Debug)]
enum RowFormats {
    All(bool),
    Each(Box<[bool]>),
}

impl RowFormats {
    fn new(formats: &Formats<'_>) -> RowFormats {
        match formats.uniform() {
            Some(binary) => RowFormats::All(binary),
            None => RowFormats::Each((0..formats.count()).map(|at| formats.binary(at)).collect()),
        }
    }

    fn binary(&self, index: usize) -> bool {
        match self {
            RowFormats::All(binary) => *binary,
            RowFormats::Each(each) => each.get(index).copied().unwrap_or(false),
        }
    }
}

/// How an Execute ended: its last answer, which is held back until it is known
/// whether a Sync follows.
#[derive(Debug)]
pub(crate) enum Ending {
    Complete { tag: String },
    Suspended,
    Empty,
}

impl Ending {
    fn write(&self, replies: &mut Replies) {
        match self {
            Ending::Complete { tag } => replies.command_complete(tag),
            Ending::Suspended => replies.portal_suspended(),
            Ending::Empty => replies.empty_query(),
        }
    }
}

impl<W: Wire> Connection<W> {
    pub(crate) fn parse(&mut self, mut body: Body<'_>) -> Result<(), SqlError> {
        let mut read = || {
            let name = body.bytes_to_zero()?;
            let sql = body.bytes_to_zero()?;
            let count = body.u16()?;
            self.type_room.clear();
            for _ in 0..count {
                self.type_room.push(body.u32()?);
            }
            body.end()?;
            Ok((name, sql))
        };
        let (name, sql) = read().map_err(malformed)?;
        let sql = text(sql)?;
        if !name.is_empty() && self.statements.contains_key(name) {
            return Err(error(
                "42P05",
                format!("prepared statement \"{}\" already exists", shown(name)),
            ));
        }
        let prepared = self.session.prepare(sql, &self.type_room)?;
        self.statements.insert(name.into(), prepared);
        self.link.replies.parse_complete();
        Ok(())
    }

    pub(crate) fn bind(&mut self, mut body: Body<'_>) -> Result<(), SqlError> {
        let mut read = || {
            let names = (body.bytes_to_zero()?, body.bytes_to_zero()?);
            let formats = Formats::read(&mut body)?;
            let count = usize::from(body.u16()?);
            Ok((names, formats, count))
        };
        let ((portal, statement), formats, count) = read().map_err(malformed)?;
        let prepared = Arc::clone(self.statement(statement)?);
        if !formats.fit(count) {
            return Err(error(
                "08P01",
                format!(
                    "bind message has {} parameter formats but {count} parameters",
                    formats.count()
                ),
            ));
        }
        let types = prepared.params();
        if types.len() != count {
            return Err(error(
                "08P01",
                format!(
                    "bind message supplies {count} parameters, but prepared statement \"{}\" \
                     requires {}",
                    shown(statement),
                    types.len()
                ),
            ));
        }
        let mut params = self.room_for_params(portal);
        for (index, ty) in types.iter().enumerate() {
            let length = body.i32().map_err(malformed)?;
            let value = match usize::try_from(length) {
                Ok(length) => {
                    let bytes = body.take(length).map_err(malformed)?;
                    Value::decode(*ty, formats.binary(index), bytes)?
                }
                Err(_) => Value::Null,
            };
            params.push(value);
        }
        let formats = Formats::read(&mut body).map_err(malformed)?;
        body.end().map_err(malformed)?;
        let columns = prepared.columns().map_or(0, |columns| columns.len());
        if formats.count() > 1 && !formats.fit(columns) {
            return Err(error(
                "08P01",
                format!(
                    "bind message has {} result formats but query has {columns} columns",
                    formats.count()
                ),
            ));
        }
        let bound = Portal {
            prepared,
            params,
            formats: RowFormats::new(&formats),
            progress: Progress::Bound,
        };
        if portal.is_empty() {
            self.unnamed = Some(bound);
        } else if self.portals.insert(portal.into(), bound).is_some() {
            // The name was taken: the statement fails, and its portals with it.
            return Err(error(
                "42P03",
                format!("cursor \"{}\" already exists", shown(portal)),
            ));
        }
        self.link.replies.bind_complete();
        Ok(())
    }

    /// The parameters of the portal that is replaced, emptied, for their room.
    fn room_for_params(&mut self, portal: &[u8]) -> Vec<Value> {
        if !portal.is_empty() {
            return Vec::new();
        }
        let mut params = self
            .unnamed
            .take()
            .map_or_else(Vec::new, |portal| portal.params);
        params.clear();
        params
    }

    pub(crate) fn describe(&mut self, mut body: Body<'_>) -> Result<(), SqlError> {
        let (kind, name) = read_target(&mut body)?;
        if kind == b'S' {
            let prepared = Arc::clone(self.statement(name)?);
            let replies = &mut self.link.replies;
            replies.parameter_description(prepared.params());
            match prepared.columns() {
                Some(columns) => replies.row_description(columns, |_| false),
                None => replies.no_data(),
            }
            return Ok(());
        }
        let replies = &mut self.link.replies;
        let portal = if name.is_empty() {
            self.unnamed.as_ref()
        } else {
            self.portals.get(name)
        };
        let portal = portal.ok_or_else(|| no_portal(name))?;
        match portal.prepared.columns() {
            Some(columns) => replies.row_description(columns, |at| portal.formats.binary(at)),
            None => replies.no_data(),
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, mut body: Body<'_>) -> Result<(), SqlError> {
        let (kind, name) = read_target(&mut body)?;
        // Closing what is not there is no error.
        if kind == b'S' {
            self.statements.remove(name);
        } else if name.is_empty() {
            self.unnamed = None;
        } else {
            self.portals.remove(name);
        }
        self.link.replies.close_complete();
        Ok(())
    }

    /// Executes a portal.
    pub(crate) async fn execute(
        &mut self,
        mut body: Body<'_>,
    ) -> Result<Result<(), SqlError>, Gone> {
        let mut read = || {
            let name = body.bytes_to_zero()?;
            let most = body.u32()?;
            body.end()?;
            Ok((name, most))
        };
        let (name, most) = match read().map_err(malformed) {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        // Out of its place while it runs; an error leaves none behind.
        let taken = if name.is_empty() {
            self.unnamed.take()
        } else {
            self.portals.remove(name)
        };
        let Some(mut portal) = taken else {
            return Ok(Err(no_portal(name)));
        };
        let most = usize::try_from(most)
            .ok()
            .filter(|most| *most > 0)
            .unwrap_or(usize::MAX);
        let ending = match self.fetch(&mut portal, most).await? {
            Ok(ending) => ending,
            Err(error) => return Ok(Err(error)),
        };
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else {
            self.portals.insert(name.into(), portal);
        }
        self.held = Some(ending);
        Ok(Ok(()))
    }

    /// Says how the last Execute ended, if that was held back.
    pub(crate) fn release(&mut self) {
        if let Some(ending) = self.held.take() {
            ending.write(&mut self.link.replies);
        }
    }

    /// Runs a portal, or goes on with it, and sends at most `most` rows.
    async fn fetch(
        &mut self,
        portal: &mut Portal,
        most: usize,
    ) -> Result<Result<Ending, SqlError>, Gone> {
        if let Progress::Bound = portal.progress {
            portal.progress = Progress::Done;
            if portal.prepared.is_empty() {
                return Ok(Ok(Ending::Empty));
            }
            let executed = match self.run(&portal.prepared, &portal.params).await? {
                Ok(executed) => executed,
                Err(error) => return Ok(Err(error)),
            };
            notices(&mut self.link.replies, &executed);
            let Some(columns) = executed.columns else {
                return Ok(Ok(Ending::Complete { tag: executed.tag }));
            };
            portal.progress = Progress::Open {
                columns,
                rows: executed.rows,
                next: 0,
                tag: executed.tag,
            };
        }
        let Progress::Open {
            columns,
            rows,
            next,
            tag,
        } = &mut portal.progress
        else {
            return Ok(match portal.prepared.columns() {
                Some(_) => Ok(Ending::Complete {
                    tag: "SELECT 0".to_owned(),
                }),
                None => Err(error("55000", "portal cannot be run")),
            });
        };
        let from = *next;
        let until = rows.len().min(from.saturating_add(most));
        for row in &rows[from..until] {
            let binary = |at| portal.formats.binary(at);
            if let Err(error) = self.link.replies.data_row(columns, row, binary) {
                return Ok(Err(error));
            }
            self.relieve().await?;
        }
        *next = until;
        // As PostgreSQL: a limit that is met exactly suspends, the rows may
        // have ended or not.
        if until - from == most {
            return Ok(Ok(Ending::Suspended));
        }
        // A SELECT's tag counts the rows of this Execute alone.
        let tag = if tag.starts_with("SELECT ") {
            format!("SELECT {}", until - from)
        } else {
            std::mem::take(tag)
        };
        portal.progress = Progress::Done;
        Ok(Ok(Ending::Complete { tag }))
    }

    fn statement(&self, name: &[u8]) -> Result<&Arc<Prepared>, SqlError> {
        self.statements.get(name).ok_or_else(|| {
            error(
                "26000",
                format!("prepared statement \"{}\" does not exist", shown(name)),
            )
        })
    }
}

/// What Describe and Close name: a statement or a portal.
fn read_target<'a>(body: &mut Body<'a>) -> Result<(u8, &'a [u8]), SqlError> {
    let mut read = || {
        let kind = body.u8()?;
        let name = body.bytes_to_zero()?;
        body.end()?;
        Ok((kind, name))
    };
    match read().map_err(malformed)? {
        (kind @ (b'S' | b'P'), name) => Ok((kind, name)),
        _ => Err(malformed(crate::message::Malformed)),
    }
}

fn no_portal(name: &[u8]) -> SqlError {
    error(
        "34000",
        format!("portal \"{}\" does not exist", shown(name)),
    )
}

fn shown(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}
