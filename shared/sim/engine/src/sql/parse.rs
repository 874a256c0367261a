//! From text to statements.
//!
//! `sqlparser` reads PostgreSQL's dialect; around it a pass over the tokens
//! does what it cannot: it splits a script, recognises the statements that DSQL
//! refuses by name (some of which do not parse), rewrites the little that is
//! spelled differently, and words syntax errors as PostgreSQL does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::error::{Result, SqlError};
use crate::session::Current;

/// One parsed statement of a script, not planned yet.
#[derive(Debug)]
pub struct Parsed(pub(crate) Arc<Statement>);

/// A statement and the script that it stands in.
#[derive(Debug)]
pub(crate) struct Statement {
    pub script: Arc<str>,
    pub command: Command,
    planned: Mutex<Option<Current>>,
}

impl Statement {
    pub(crate) fn new(script: Arc<str>, command: Command) -> Statement {
        Statement {
            script,
            command,
            planned: Mutex::new(None),
        }
    }

    /// Its last plan without declared parameter types.
    pub(crate) fn planned(&self) -> MutexGuard<'_, Option<Current>> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a statement is.
#[derive(Debug)]
pub(crate) enum Command {
    /// Nothing but white space and comments.
    Empty,
    Sql(Box<ast::Statement>),
    /// ALTER TABLE ASYNC …
    AlterAsync(Box<ast::Statement>),
    /// ALTER TABLE … SET STORAGE, which changes nothing here.
    SetStorage(String),
    /// SET CONSTRAINTS …
    SetConstraints,
    /// Refused whatever it says.
    Refused(SqlError),
}

/// Operators in a row that an expression may have: each is one level of a tree.
const MAX_CHAIN: usize = 4_000;

/// Levels of parentheses, subqueries and the like.
const MAX_NESTING: usize = 60;

/// Character position, from 1, of a place in a text.
pub(crate) fn position(source: &str, at: Location) -> Option<u32> {
    if at.line == 0 || at.column == 0 {
        return None;
    }
    let mut before = 0;
    for (i, line) in source.split('\n').enumerate() {
        if i as u64 + 1 == at.line {
            return u32::try_from(before + at.column).ok();
        }
        before += line.chars().count() as u64 + 1;
    }
    None
}

/// Splits and parses a script.
pub(crate) fn parse(script: &str) -> Result<Vec<Parsed>> {
    if script.contains('\0') {
        return Err(SqlError::new(
            "22021",
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        ));
    }
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, script)
        .tokenize_with_location()
        .map_err(|error| {
            SqlError::new(
                "42601",
                token_message(script, &error.message, error.location),
            )
            .at(position(script, error.location))
        })?;
    let source: Arc<str> = Arc::from(script);
    let mut statements = Vec::new();
    let mut current = Vec::new();
    let mut finish = |tokens: Vec<TokenWithSpan>, ended: bool| -> Result<()> {
        let only_space = tokens
            .iter()
            .all(|token| matches!(token.token, Token::Whitespace(_)));
        if !only_space {
            statements.push(Parsed(Arc::new(Statement::new(
                Arc::clone(&source),
                command(tokens, script, ended)?,
            ))));
        }
        Ok(())
    };
    for token in tokens {
        match token.token {
            Token::SemiColon => finish(std::mem::take(&mut current), true)?,
            Token::EOF => {}
            _ => current.push(token),
        }
    }
    finish(current, false)?;
    Ok(statements)
}

/// PostgreSQL's words for what the tokenizer stumbles over.
fn token_message(script: &str, message: &str, at: Location) -> String {
    let rest: String = match position(script, at) {
        Some(position) => script.chars().skip(position as usize - 1).collect(),
        None => String::new(),
    };
    let rest = rest.trim();
    if message.contains("Unterminated string") {
        format!("unterminated quoted string at or near \"{rest}\"")
    } else if message.contains("dollar-quoted") {
        format!("unterminated dollar-quoted string at or near \"{rest}\"")
    } else if message.contains("comment") {
        format!("unterminated /* comment at or near \"{rest}\"")
    } else if message.contains("delimiter") {
        format!("unterminated quoted identifier at or near \"{rest}\"")
    } else {
        format!("syntax error: {message}")
    }
}

fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// An unquoted word in upper case.
fn word(token: &TokenWithSpan) -> String {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_uppercase(),
        _ => String::new(),
    }
}

/// One statement.
fn command(mut tokens: Vec<TokenWithSpan>, script: &str, ended: bool) -> Result<Command> {
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let start: Vec<String> = tokens.iter().take(8).map(word).collect();
    let start: Vec<&str> = start.iter().map(String::as_str).collect();
    if let Some(refused) = refused(&start, &tokens) {
        return Ok(Command::Refused(refused));
    }
    match start.as_slice() {
        ["SET", "CONSTRAINTS", ..] => return Ok(Command::SetConstraints),
        ["ALTER", "TABLE", rest @ ..] if rest.contains(&"STORAGE") => {
            let table = tokens
                .iter()
                .skip(2)
                .find(|token| !matches!(word(token).as_str(), "IF" | "EXISTS" | "ONLY"));
            if let Some(TokenWithSpan {
                token: Token::Word(name),
                ..
            }) = table
            {
                let name = match name.quote_style {
                    Some(_) => name.value.clone(),
                    None => name.value.to_lowercase(),
                };
                return Ok(Command::SetStorage(name));
            }
        }
        _ => {}
    }
    let alter_async = matches!(start.as_slice(), ["ALTER", "TABLE", "ASYNC", ..]);
    if alter_async {
        tokens.remove(2);
    }
    if let Some(refused) = rewrite(&mut tokens, script, ended)? {
        return Ok(Command::Refused(refused));
    }
    let mut parser = Parser::new(&PostgreSqlDialect {})
        .with_recursion_limit(MAX_NESTING)
        .with_tokens_with_locations(tokens);
    let statement = parser
        .parse_statement()
        .and_then(|statement| {
            let next = parser.peek_token();
            match next.token {
                Token::EOF => Ok(statement),
                _ => parser.expected("end of statement", next),
            }
        })
        .map_err(|error| parser_error(&error, script, ended))?;
    if let ast::Statement::CreateIndex(index) = &statement
        && index.name.as_ref().is_some_and(|name| name.0.len() > 1)
    {
        return Err(SqlError::syntax("."));
    }
    Ok(if alter_async {
        Command::AlterAsync(Box::new(statement))
    } else {
        Command::Sql(Box::new(statement))
    })
}

/// Statements that DSQL refuses by what they are.
fn refused(start: &[&str], tokens: &[TokenWithSpan]) -> Option<SqlError> {
    let has = |wanted: &str| tokens.iter().any(|token| word(token) == wanted);
    let transaction =
        |what: &str| SqlError::unsupported(format!("unsupported transaction statement: {what}"));
    Some(match start {
        ["TRUNCATE", ..] => SqlError::statement("Truncate"),
        ["CREATE", "EXTENSION", ..] => SqlError::statement("CreateExtension"),
        ["CREATE", "DATABASE", ..] => SqlError::statement("Createdb"),
        ["CREATE", "MATERIALIZED", "VIEW", ..] => SqlError::statement("CreateTableAs"),
        ["CREATE", "TABLESPACE", ..] => SqlError::statement("CreateTableSpace"),
        ["CREATE", "TYPE", ..] if has("RANGE") => SqlError::statement("CreateRange"),
        ["CREATE", "TYPE", ..] => SqlError::unsupported("CREATE TYPE not supported"),
        ["ALTER", "TYPE", ..] => SqlError::unsupported("ALTER TYPE not supported"),
        ["DROP", "TYPE", ..] => SqlError::unsupported("unsupported object in DROP statement"),
        ["ALTER", "SYSTEM", ..] => SqlError::statement("AlterSystem"),
        ["VACUUM", ..] => SqlError::unsupported("unsupported VACUUM statement"),
        ["LISTEN", ..] => SqlError::statement("Listen"),
        ["UNLISTEN", ..] => SqlError::statement("Unlisten"),
        ["NOTIFY", ..] => SqlError::statement("Notify"),
        ["MERGE", ..] => SqlError::unsupported("unsupported statement type: MERGE"),
        ["SAVEPOINT", ..] => transaction("SAVEPOINT"),
        ["RELEASE", ..] => transaction("RELEASE"),
        ["ROLLBACK", "TO", ..]
        | ["ROLLBACK", "TRANSACTION" | "WORK", "TO", ..]
        | ["ABORT", "TO", ..] => transaction("ROLLBACK TO"),
        ["PREPARE", "TRANSACTION", ..] | ["COMMIT" | "ROLLBACK", "PREPARED", ..] => {
            SqlError::simulator("two-phase commit")
        }
        ["CREATE", "TEMP" | "TEMPORARY", "TABLE", ..]
        | [
            "CREATE",
            "LOCAL" | "GLOBAL",
            "TEMP" | "TEMPORARY",
            "TABLE",
            ..,
        ] => SqlError::unsupported("TEMPORARY or TEMP table not supported for CREATE TABLE"),
        ["CREATE", "UNLOGGED", "TABLE", ..] => {
            SqlError::unsupported("UNLOGGED table not supported for CREATE TABLE")
        }
        ["SET", "TRANSACTION", rest @ ..] => set_transaction(rest),
        ["SET", "SESSION", "CHARACTERISTICS", ..] => {
            SqlError::simulator("SET SESSION CHARACTERISTICS")
        }
        ["COPY", ..] => SqlError::simulator("COPY"),
        ["CREATE", rest @ ..] if rest.contains(&"FUNCTION") => {
            let language = tokens
                .iter()
                .position(|token| word(token) == "LANGUAGE")
                .and_then(|at| tokens.get(at + 1));
            let name = match language.map(|token| &token.token) {
                Some(Token::Word(word)) => word.value.to_lowercase(),
                Some(Token::SingleQuotedString(text)) => text.to_lowercase(),
                _ => return None,
            };
            if name == "sql" {
                return None;
            }
            SqlError::unsupported(format!(
                "CREATE FUNCTION with language {name} not supported"
            ))
        }
        _ => return None,
    })
}

fn set_transaction(rest: &[&str]) -> SqlError {
    if let ["ISOLATION", "LEVEL", first, rest @ ..] = rest {
        let level = match (*first, rest.first()) {
            ("READ", Some(second)) | ("REPEATABLE", Some(second)) => format!("{first} {second}"),
            _ => (*first).to_owned(),
        };
        if level != "REPEATABLE READ" {
            return unsupported_level(&level);
        }
    }
    unsupported_parameter("TRANSACTION")
}

/// A level other than the one there is.
pub(crate) fn unsupported_level(level: &str) -> SqlError {
    SqlError::unsupported(format!("Unsupported isolation level: {level}"))
}

/// A parameter that cannot be set.
pub(crate) fn unsupported_parameter(name: &str) -> SqlError {
    SqlError::unsupported(format!(
        "setting configuration parameter \"{name}\" not supported"
    ))
}

/// Rewrites what is spelled differently: `FOR KEY SHARE` becomes `FOR SHARE`
/// (which itself is refused), `GROUP BY DISTINCT` loses a word that changes
/// nothing for a single grouping set.
fn rewrite(tokens: &mut Vec<TokenWithSpan>, script: &str, ended: bool) -> Result<Option<SqlError>> {
    let mut at = 0;
    let mut chain = 0;
    while at < tokens.len() {
        let here = keyword(&tokens[at]);
        let next = tokens.get(at + 1).map(keyword);
        let after = tokens.get(at + 2).map(keyword);
        match (here, next, after) {
            (Keyword::FOR, Some(Keyword::KEY), Some(Keyword::SHARE)) => {
                tokens.remove(at + 1);
                at += 2;
                continue;
            }
            (Keyword::FOR, Some(Keyword::SHARE), _)
            | (Keyword::FOR, Some(Keyword::NO), Some(Keyword::KEY)) => {
                return Ok(Some(SqlError::unsupported(
                    "locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported",
                )));
            }
            (Keyword::GROUP, Some(Keyword::BY), Some(Keyword::DISTINCT)) => {
                tokens.remove(at + 2);
            }
            (Keyword::GROUP, Some(Keyword::BY), Some(Keyword::ALL)) => {
                return Err(near(tokens.get(at + 3), script, ended));
            }
            (Keyword::AND | Keyword::OR, ..) => chain += 1,
            _ => match &tokens[at].token {
                Token::Comma | Token::LParen | Token::RParen => chain = 0,
                Token::Plus
                | Token::Minus
                | Token::Mul
                | Token::Div
                | Token::Mod
                | Token::StringConcat
                | Token::DoubleColon
                | Token::Eq
                | Token::Neq
                | Token::Lt
                | Token::Gt => chain += 1,
                _ => {}
            },
        }
        if chain > MAX_CHAIN {
            return Err(SqlError::new("54001", "stack depth limit exceeded"));
        }
        at += 1;
    }
    Ok(None)
}

/// 42601 at a token, or at the end.
fn near(token: Option<&TokenWithSpan>, script: &str, ended: bool) -> SqlError {
    match token {
        Some(token) => {
            SqlError::syntax(&token.token.to_string()).at(position(script, token.span.start))
        }
        None if ended => SqlError::syntax(";"),
        None => SqlError::new("42601", "syntax error at end of input"),
    }
}

/// 42601 from the parser's "Expected: …, found: X at Line: 1, Column: 2".
fn parser_error(error: &ParserError, script: &str, ended: bool) -> SqlError {
    let message = match error {
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
        ParserError::RecursionLimitExceeded => {
            return SqlError::new("54001", "stack depth limit exceeded");
        }
    };
    let place = message
        .rsplit_once(" at Line: ")
        .and_then(|(before, place)| {
            let (line, column) = place.split_once(", Column: ")?;
            let at = Location {
                line: line.trim().parse().ok()?,
                column: column.trim().parse().ok()?,
            };
            Some((before, at))
        });
    let Some((before, at)) = place else {
        return if message.contains("found: EOF") || message.ends_with("EOF") {
            near(None, script, ended)
        } else {
            SqlError::new("42601", format!("syntax error: {message}"))
        };
    };
    match before.rsplit_once("found: ") {
        Some((_, "EOF")) => near(None, script, ended),
        Some((_, found)) => SqlError::syntax(found).at(position(script, at)),
        None => SqlError::new("42601", format!("syntax error: {before}")).at(position(script, at)),
    }
}
