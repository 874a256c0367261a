//! The schema: what tables, indexes, views and domains there are.
//!
//! A catalog never changes. DDL builds a new one inside its transaction, and
//! the commit puts it in the place of the old one, so that every transaction
//! keeps the schema that it began with and notices (OC001) when it was
//! replaced.

use std::collections::BTreeMap;
use std::sync::Arc;

use sqlparser::ast;

use crate::error::{Result, SqlError};
use crate::sql::expr::Expr;
use crate::types::Type;

/// OIDs below this one belong to the system.
pub(crate) const FIRST_OID: u32 = 16_384;

/// A column of a table. Its position in the table is its slot in every row.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: String,
    pub ty: Type,
    pub not_null: bool,
    /// The expression of DEFAULT, bound anew by every INSERT.
    pub default: Option<Arc<ast::Expr>>,
    pub identity: Option<Identity>,
    /// Checks of the column's domain, if it has one.
    pub domain: Option<Arc<Domain>>,
    /// Dropped columns keep their slot.
    pub dropped: bool,
}

/// GENERATED … AS IDENTITY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub always: bool,
    /// The sequence that feeds it.
    pub sequence: u32,
}

/// A secondary index. The primary key is not one: rows are stored in its order.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub oid: u32,
    pub name: String,
    pub keys: Vec<IndexKey>,
    pub include: Vec<usize>,
    pub unique: bool,
    pub predicate: Option<Expr>,
    /// Whether queries may use it: its job has ended well.
    pub valid: bool,
    /// Made by a UNIQUE constraint.
    pub constraint: bool,
    /// The statement that makes it, for pg_get_indexdef.
    pub definition: String,
}

/// What one column of an index holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum IndexKey {
    Slot(usize),
    Expr(Expr),
}

/// CHECK (…) of a table, over its rows.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub oid: u32,
    pub name: String,
    pub expr: Expr,
    pub text: String,
}

/// What happens to a referencing row when what it refers to goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The statement fails.
    Refuse,
    Cascade,
    SetNull,
    SetDefault,
}

/// FOREIGN KEY.
#[derive(Clone, Debug)]
pub(crate) struct ForeignKey {
    pub oid: u32,
    pub name: String,
    pub columns: Vec<usize>,
    pub parent: u32,
    pub parent_columns: Vec<usize>,
    pub on_delete: Action,
    pub on_update: Action,
    pub deferrable: bool,
    pub deferred: bool,
    pub validated: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    pub columns: Vec<Column>,
    /// Slots of the primary key, in its order; empty for a table without one,
    /// whose rows get a hidden number.
    pub primary: Vec<usize>,
    pub primary_name: String,
    pub primary_oid: u32,
    pub indexes: Vec<Arc<Index>>,
    pub checks: Vec<Check>,
    pub foreign_keys: Vec<ForeignKey>,
    pub owner: String,
}

impl Table {
    /// The slot of a column that is there.
    pub(crate) fn slot(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| !column.dropped && column.name == name)
    }

    /// Columns that are there, with their slots.
    pub(crate) fn live(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.columns
            .iter()
            .enumerate()
            .filter(|(_, column)| !column.dropped)
    }

    pub(crate) fn has_primary(&self) -> bool {
        !self.primary.is_empty()
    }

    /// Whether a change of this column is a change of key, which a reference
    /// from elsewhere would notice.
    pub(crate) fn is_key_column(&self, slot: usize) -> bool {
        self.primary.contains(&slot)
            || self.indexes.iter().any(|index| {
                index.unique
                    && index.predicate.is_none()
                    && index
                        .keys
                        .iter()
                        .all(|key| matches!(key, IndexKey::Slot(_)))
                    && index.keys.contains(&IndexKey::Slot(slot))
            })
    }
}

/// A view: its query is planned wherever it is used.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    pub query: Arc<ast::Query>,
    pub columns: Vec<(String, Type)>,
    /// Tables and views that it looks at.
    pub uses: Vec<u32>,
    pub owner: String,
}

/// A domain: a type with checks.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub oid: u32,
    pub name: String,
    pub ty: Type,
    pub not_null: bool,
    pub default: Option<Arc<ast::Expr>>,
    /// Name and condition over a row of one column, the value.
    pub checks: Vec<(String, Expr)>,
}

/// A sequence; its position is in the database, as it knows no transactions.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    pub start: i64,
    pub increment: i64,
}

/// What a name in FROM can mean.
#[derive(Clone, Debug)]
pub(crate) enum Relation {
    Table(Arc<Table>),
    View(Arc<View>),
    Sequence(Arc<Sequence>),
}

impl Relation {
    pub(crate) fn oid(&self) -> u32 {
        match self {
            Relation::Table(table) => table.oid,
            Relation::View(view) => view.oid,
            Relation::Sequence(sequence) => sequence.oid,
        }
    }
}

/// The schema as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    /// Rises with every DDL that commits; transactions that began with another
    /// one fail with OC001.
    pub version: u64,
    /// Rises with everything that can change a plan, such as an index that
    /// becomes valid.
    pub generation: u64,
    pub next_oid: u32,
    /// Name and OID.
    pub schemas: BTreeMap<String, u32>,
    pub relations: BTreeMap<(String, String), Relation>,
    pub domains: BTreeMap<String, Arc<Domain>>,
    /// Functions in SQL are accepted and kept by name only.
    pub functions: BTreeMap<String, u32>,
}

impl Default for Catalog {
    fn default() -> Catalog {
        let schemas = [
            ("public", 2_200),
            ("pg_catalog", 11),
            ("information_schema", 13_000),
            ("sys", 13_001),
        ];
        Catalog {
            version: 1,
            generation: 1,
            next_oid: FIRST_OID,
            schemas: schemas
                .into_iter()
                .map(|(name, oid)| (name.to_owned(), oid))
                .collect(),
            relations: BTreeMap::new(),
            domains: BTreeMap::new(),
            functions: BTreeMap::new(),
        }
    }
}

impl Catalog {
    pub(crate) fn take_oid(&mut self) -> u32 {
        let oid = self.next_oid;
        self.next_oid += 1;
        oid
    }

    /// A relation by its name, in `public` unless the name says otherwise.
    pub(crate) fn relation(&self, schema: Option<&str>, name: &str) -> Option<&Relation> {
        // A borrowed pair cannot look into a map of owned pairs; names are
        // short and this happens when planning only.
        let key = (schema.unwrap_or("public").to_owned(), name.to_owned());
        self.relations.get(&key)
    }

    pub(crate) fn table(&self, schema: Option<&str>, name: &str) -> Result<&Arc<Table>> {
        match self.relation(schema, name) {
            Some(Relation::Table(table)) => Ok(table),
            Some(_) => Err(SqlError::new("42809", format!("\"{name}\" is not a table"))),
            None => Err(undefined(schema, name)),
        }
    }

    pub(crate) fn table_by_oid(&self, oid: u32) -> Option<&Arc<Table>> {
        self.tables().find(|table| table.oid == oid)
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.relations
            .values()
            .filter_map(|relation| match relation {
                Relation::Table(table) => Some(table),
                _ => None,
            })
    }

    /// The table that has an index of this name.
    pub(crate) fn index(&self, schema: Option<&str>, name: &str) -> Option<&Arc<Table>> {
        let schema = schema.unwrap_or("public");
        self.tables().find(|table| {
            table.schema == schema
                && (table.indexes.iter().any(|index| index.name == name)
                    || (table.has_primary() && table.primary_name == name))
        })
    }

    /// Whether a relation or an index has this name.
    pub(crate) fn is_taken(&self, schema: &str, name: &str) -> bool {
        self.relation(Some(schema), name).is_some() || self.index(Some(schema), name).is_some()
    }

    /// Puts a table into the place of the one of the same name.
    pub(crate) fn put_table(&mut self, table: Table) {
        let key = (table.schema.clone(), table.name.clone());
        self.relations.insert(key, Relation::Table(Arc::new(table)));
    }

    /// Views that look at a table or view.
    pub(crate) fn views_of(&self, oid: u32) -> Vec<Arc<View>> {
        self.relations
            .values()
            .filter_map(|relation| match relation {
                Relation::View(view) if view.uses.contains(&oid) => Some(Arc::clone(view)),
                _ => None,
            })
            .collect()
    }

    /// References to a table, with the tables that they are in.
    pub(crate) fn references(&self, parent: u32) -> Vec<(Arc<Table>, ForeignKey)> {
        self.tables()
            .flat_map(|table| {
                table
                    .foreign_keys
                    .iter()
                    .filter(move |key| key.parent == parent)
                    .map(|key| (Arc::clone(table), key.clone()))
            })
            .collect()
    }
}

/// 42P01, with the schema if the name had one.
pub(crate) fn undefined(schema: Option<&str>, name: &str) -> SqlError {
    match schema {
        Some(schema) => SqlError::undefined_table(&format!("{schema}.{name}")),
        None => SqlError::undefined_table(name),
    }
}
