//! EXPLAIN: the operators of a plan, one a line. Costs are PostgreSQL's
//! business; only the plan of a query without a table has them, which is
//! always the same.

use super::dml::{DmlKind, Source};
use super::plan::{JoinKind, Node, Scan};
use crate::statement::Plan;

pub(crate) fn lines(plan: &Plan) -> Vec<String> {
    let mut out = Vec::new();
    match plan {
        Plan::Query { node, .. } => match &**node {
            Node::Project { input, .. } if matches!(**input, Node::One) => {
                out.push("Result  (cost=0.00..0.01 rows=1 width=4)".to_owned());
            }
            node => walk(node, 0, &mut out),
        },
        Plan::Dml { dml, .. } => {
            let (word, source) = match &dml.kind {
                DmlKind::Insert { source, .. } => {
                    push(&mut out, 0, format!("Insert on {}", dml.table.name));
                    walk(source, 1, &mut out);
                    return out;
                }
                DmlKind::Update { source, .. } => ("Update", source),
                DmlKind::Delete { source } => ("Delete", source),
            };
            push(&mut out, 0, format!("{word} on {}", dml.table.name));
            match source {
                Source::Scan(scan) => push(&mut out, 1, scan_line(scan)),
                Source::Join(node) => walk(node, 1, &mut out),
            }
        }
        _ => out.push("Utility Statement".to_owned()),
    }
    out
}

fn push(out: &mut Vec<String>, depth: usize, line: String) {
    out.push(match depth {
        0 => line,
        _ => format!("{}->  {line}", " ".repeat(depth * 6 - 4)),
    });
}

fn scan_line(scan: &Scan) -> String {
    let table = &scan.table.name;
    let access = &scan.access;
    let index = access.index.and_then(|i| scan.table.indexes.get(i));
    let backward = if access.reverse { " Backward" } else { "" };
    match index {
        Some(index) => format!("Index Scan{backward} using {} on {table}", index.name),
        None if access.is_full() && !scan.table.has_primary() => format!("Seq Scan on {table}"),
        None if access.is_full() => format!("Full Scan{backward} (btree-table) on {table}"),
        None => format!(
            "Index Scan{backward} using {} on {table}",
            scan.table.primary_name
        ),
    }
}

fn walk(node: &Node, depth: usize, out: &mut Vec<String>) {
    let mut one = |line: &str, input: &Node| {
        push(out, depth, line.to_owned());
        walk(input, depth + 1, out);
    };
    match node {
        Node::One => push(out, depth, "Result".to_owned()),
        Node::Values(_) => push(out, depth, "Values Scan".to_owned()),
        Node::Scan(scan) => push(out, depth, scan_line(scan)),
        Node::System(table) => push(out, depth, format!("Seq Scan on {}", table.name)),
        Node::Function(_) => push(out, depth, "Function Scan".to_owned()),
        Node::Cte(_) => push(out, depth, "CTE Scan".to_owned()),
        Node::Project { input, .. } => walk(input, depth, out),
        Node::Filter { input, .. } => one("Filter", input),
        Node::ProjectSet { input, .. } => one("ProjectSet", input),
        Node::Window { input, .. } => one("WindowAgg", input),
        Node::Distinct { input, .. } => one("Unique", input),
        Node::Sort { input, .. } => one("Sort", input),
        Node::Limit { input, .. } => one("Limit", input),
        Node::Lock { input, .. } => one("LockRows", input),
        Node::Aggregate(aggregation) => {
            let line = if aggregation.groups.is_empty() {
                "Aggregate"
            } else {
                "HashAggregate"
            };
            one(line, &aggregation.input);
        }
        Node::Join(join) => {
            let method = if join.hash.is_empty() {
                "Nested Loop"
            } else {
                "Hash"
            };
            let kind = match join.kind {
                JoinKind::Inner => "",
                JoinKind::Left => " Left",
                JoinKind::Right => " Right",
                JoinKind::Full => " Full",
            };
            let join_word = if join.hash.is_empty() && kind.is_empty() {
                ""
            } else {
                " Join"
            };
            push(out, depth, format!("{method}{kind}{join_word}"));
            walk(&join.left, depth + 1, out);
            walk(&join.right, depth + 1, out);
        }
        Node::Probe(probe) => {
            let line = if probe.outer_join {
                "Nested Loop Left Join"
            } else {
                "Nested Loop"
            };
            push(out, depth, line.to_owned());
            walk(&probe.left, depth + 1, out);
            push(out, depth + 1, scan_line(&probe.scan));
        }
        Node::SetOperation { left, right, .. } => {
            push(out, depth, "Append".to_owned());
            walk(left, depth + 1, out);
            walk(right, depth + 1, out);
        }
        Node::With { body, ctes } => {
            walk(body, depth, out);
            for cte in ctes {
                push(out, depth + 1, "CTE".to_owned());
                walk(&cte.plan, depth + 2, out);
            }
        }
    }
}
