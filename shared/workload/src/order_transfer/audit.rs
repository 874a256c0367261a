//! The books of a rep, pure: everything that is there is put in, and held
//! against itself, against the deal and against what the driver was told.

use std::collections::BTreeSet;

use super::deal::{Deal, Dealt, Item, ORDER, Request, TRANSFER, Transfer};
use crate::number::writer_of;
use crate::problems::Problems;
use crate::{Claim, Said, Step, Verified};

/// A receipt as it was found.
#[derive(Clone, Debug)]
pub(crate) struct Receipt {
    pub(crate) id: i64,
    pub(crate) operation: i64,
    pub(crate) kind: String,
    pub(crate) debited: Option<i64>,
    pub(crate) credited: Option<i64>,
    pub(crate) amount: i64,
}

/// An order as it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) id: i64,
    pub(crate) items: i64,
}

/// A line of an order as it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) order_id: i64,
    pub(crate) line: i64,
    pub(crate) product: i64,
    pub(crate) shard: i64,
    pub(crate) quantity: i64,
}

/// All that is there under one business id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect<'a> {
    pub(crate) id: i64,
    pub(crate) receipt: Option<&'a Receipt>,
    pub(crate) order: Option<&'a Order>,
    pub(crate) lines: &'a [Line],
}

/// The sums so far.
pub(crate) struct Audit<'a> {
    deal: &'a Deal,
    /// By operation.
    claims: Vec<&'a Claim>,
    /// Whether the effect of each claim's operation was found.
    there: Vec<bool>,
    missing: BTreeSet<u32>,
    /// Pieces sold from each stock row, as the lines say.
    sold: Vec<i128>,
    /// What each account gained, as the receipts say.
    gained: Vec<i128>,
    /// Stock rows and accounts that were found.
    stock_rows: u64,
    account_rows: u64,
    balances: i128,
    rows: u64,
    problems: Problems,
}

impl<'a> Audit<'a> {
    pub(crate) fn new(deal: &'a Deal, claims: &'a [Claim], missing: &[u32]) -> Audit<'a> {
        let mut claims: Vec<&Claim> = claims.iter().collect();
        claims.sort_by_key(|claim| claim.op);
        Audit {
            there: vec![false; claims.len()],
            claims,
            missing: missing.iter().copied().collect(),
            sold: vec![0; deal.products as usize * deal.shards as usize],
            gained: vec![0; deal.accounts as usize],
            stock_rows: 0,
            account_rows: 0,
            balances: 0,
            rows: 0,
            problems: Problems::default(),
            deal,
        }
    }

    /// Puts in what is there under one business id.
    pub(crate) fn effect(&mut self, effect: Effect<'_>) {
        let Effect {
            id,
            receipt,
            order,
            lines,
        } = effect;
        self.rows += lines.len() as u64 + u64::from(receipt.is_some()) + u64::from(order.is_some());
        for line in lines {
            match self.stock_row(line.product, line.shard) {
                Some(at) => self.sold[at] += i128::from(line.quantity),
                None => self.say(format!(
                    "order {id}, line {}: there is no stock row {} of product {}",
                    line.line, line.shard, line.product
                )),
            }
        }
        if let Some(order) = order
            && usize::try_from(order.items).ok() != Some(lines.len())
        {
            self.say(format!(
                "order {id}: it should have {} lines and has {}",
                order.items,
                lines.len()
            ));
        }
        if order.is_none() && !lines.is_empty() {
            self.say(format!(
                "order {id}: there are {} lines without an order",
                lines.len()
            ));
        }
        let Some(receipt) = receipt else {
            if order.is_some() {
                self.say(format!("order {id}: there is no receipt of it"));
            }
            return;
        };
        self.moves(receipt);
        match self.asked_for(receipt) {
            Ok(Dealt { request, .. }) => match request {
                Request::Order(items) => self.is_order(receipt, order, lines, &items),
                Request::Transfer(transfer) => self.is_transfer(receipt, order, transfer),
            },
            Err(what) => self.say(what),
        }
        self.claimed(receipt);
    }

    /// The request that a receipt's operation was to make.
    fn asked_for(&self, receipt: &Receipt) -> Result<Dealt, String> {
        let Receipt { id, operation, .. } = receipt;
        let dealt = u64::try_from(*operation)
            .ok()
            .and_then(|operation| self.deal.dealt(operation));
        match dealt {
            None => Err(format!(
                "receipt {id}: this rep has no operation {operation}, which it names"
            )),
            Some(dealt) if dealt.business_id != *id => Err(format!(
                "receipt {id}: operation {operation} has the business id {}",
                dealt.business_id
            )),
            Some(dealt) => Ok(dealt),
        }
    }

    fn moves(&mut self, receipt: &Receipt) {
        let amount = i128::from(receipt.amount);
        for (account, amount) in [(receipt.debited, -amount), (receipt.credited, amount)] {
            let Some(account) = account else { continue };
            match usize::try_from(account)
                .ok()
                .and_then(|at| self.gained.get_mut(at))
            {
                Some(gained) => *gained += amount,
                None => self.say(format!(
                    "receipt {}: there is no account {account}",
                    receipt.id
                )),
            }
        }
    }

    fn is_order(
        &mut self,
        receipt: &Receipt,
        order: Option<&Order>,
        lines: &[Line],
        items: &[Item],
    ) {
        let id = receipt.id;
        if order.is_none() {
            self.say(format!("order {id}: there is a receipt and no order"));
        }
        let pieces: i64 = items.iter().map(|item| item.quantity).sum();
        let of_order = receipt.kind == ORDER
            && receipt.amount == pieces
            && (receipt.debited, receipt.credited) == (None, None);
        if !of_order {
            self.say(format!(
                "receipt {id}: it should be of an order of {pieces} pieces and says {}",
                said(receipt)
            ));
        }
        let right = |(line, item): (&Line, &Item)| {
            (line.product, line.quantity) == (i64::from(item.product), item.quantity)
        };
        let counted = lines.iter().zip(0i64..).all(|(line, n)| line.line == n);
        if order.is_some()
            && (lines.len() != items.len() || !counted || !lines.iter().zip(items).all(right))
        {
            self.say(format!("order {id}: its lines are not what was ordered"));
        }
    }

    fn is_transfer(&mut self, receipt: &Receipt, order: Option<&Order>, asked: Transfer) {
        let id = receipt.id;
        let there = (
            receipt.kind.as_str(),
            receipt.debited,
            receipt.credited,
            receipt.amount,
        );
        let right = (
            TRANSFER,
            Some(i64::from(asked.debited)),
            Some(i64::from(asked.credited)),
            asked.amount,
        );
        if there != right {
            self.say(format!(
                "receipt {id}: it should be of a transfer of {} from account {} to {} and says {}",
                asked.amount,
                asked.debited,
                asked.credited,
                said(receipt)
            ));
        }
        if order.is_some() {
            self.say(format!("order {id}: its receipt is that of a transfer"));
        }
    }

    /// Holds a receipt against what was reported of its operation.
    fn claimed(&mut self, receipt: &Receipt) {
        let Receipt {
            id,
            operation,
            kind,
            ..
        } = receipt;
        // A number that is none of this rep was reported above.
        let Ok(number) = u64::try_from(*operation) else {
            return;
        };
        let Ok(at) = self.claims.binary_search_by_key(&number, |claim| claim.op) else {
            if !self.missing.contains(&writer_of(number).0) {
                self.say(format!(
                    "{kind} {id}: operation {operation} is here, and nobody reported it"
                ));
            }
            return;
        };
        self.there[at] = true;
        if self.claims[at].said == Said::Failed {
            self.say(format!(
                "{kind} {id}: operation {operation} is here, but was reported failed"
            ));
        }
    }

    /// Puts in one row of stock.
    pub(crate) fn stock(&mut self, product: i64, shard: i64, stock: i64) {
        self.rows += 1;
        let Some(at) = self.stock_row(product, shard) else {
            return self.say(format!(
                "product {product}, row {shard}: this rep has no such stock"
            ));
        };
        self.stock_rows += 1;
        if stock < 0 {
            self.say(format!("product {product}, row {shard}: stock is {stock}"));
        }
        // The remainder is less than the number of rows, which is a u32.
        let began = self.deal.stock_of((at % self.deal.shards as usize) as u32);
        let sold = self.sold[at];
        if i128::from(began) - i128::from(stock) != sold {
            self.say(format!(
                "product {product}, row {shard}: stock went from {began} to {stock}, but {sold} \
                 pieces were ordered"
            ));
        }
    }

    /// Puts in one account.
    pub(crate) fn account(&mut self, account: i64, balance: i64) {
        self.rows += 1;
        let gained = usize::try_from(account)
            .ok()
            .and_then(|at| self.gained.get(at).copied());
        let Some(gained) = gained else {
            return self.say(format!("account {account}: this rep has no such account"));
        };
        self.account_rows += 1;
        self.balances += i128::from(balance);
        if balance < 0 {
            self.say(format!("account {account}: the balance is {balance}"));
        }
        let began = self.deal.balance;
        if i128::from(balance) - i128::from(began) != gained {
            self.say(format!(
                "account {account}: the balance went from {began} to {balance}, but its transfers \
                 make {gained:+}"
            ));
        }
    }

    /// Closes the books.
    pub(crate) fn end(mut self, took: std::time::Duration) -> Verified {
        let of_stock = self.sold.len() as u64;
        if self.stock_rows != of_stock {
            self.say(format!(
                "there are {} rows of stock and should be {of_stock}",
                self.stock_rows
            ));
        }
        let of_accounts = self.gained.len() as u64;
        if self.account_rows != of_accounts {
            self.say(format!(
                "there are {} accounts and should be {of_accounts}",
                self.account_rows
            ));
        }
        let began = i128::from(self.deal.balance) * i128::from(of_accounts);
        if self.balances != began {
            self.say(format!(
                "all balances together were {began} and are {}",
                self.balances
            ));
        }
        let (mut settled_committed, mut settled_absent) = (Vec::new(), Vec::new());
        for (claim, there) in std::mem::take(&mut self.claims)
            .into_iter()
            .zip(&self.there)
        {
            let op = claim.op;
            let Some(dealt) = self.deal.dealt(op) else {
                self.problems.add(format!(
                    "a claim names operation {op}, which this rep does not have"
                ));
                continue;
            };
            match (claim.said, there) {
                (Said::Committed, false) => self.problems.add(format!(
                    "{} {}: operation {op} was reported committed and is not here",
                    dealt.request.kind(),
                    dealt.business_id
                )),
                (Said::Unknown, true) => settled_committed.push(op),
                (Said::Unknown, false) => settled_absent.push(op),
                (Said::Committed, true) | (Said::Failed, _) => {}
            }
        }
        let problems = self.problems.into_lines();
        Verified {
            ok: problems.is_empty(),
            problems,
            step: Step {
                rows: self.rows,
                took,
            },
            settled_committed,
            settled_absent,
        }
    }

    /// The place of a stock row in the sums.
    fn stock_row(&self, product: i64, shard: i64) -> Option<usize> {
        let product = u32::try_from(product).ok()?;
        let shard = u32::try_from(shard).ok()?;
        let there = product < self.deal.products && shard < self.deal.shards;
        there.then(|| product as usize * self.deal.shards as usize + shard as usize)
    }

    fn say(&mut self, line: String) {
        self.problems.add(line);
    }
}

/// What a receipt says, in words.
fn said(receipt: &Receipt) -> String {
    let Receipt {
        kind,
        debited,
        credited,
        amount,
        ..
    } = receipt;
    let account = |account: &Option<i64>| account.map_or("none".to_owned(), |at| at.to_string());
    format!(
        "{kind} of {amount}, account {} to {}",
        account(debited),
        account(credited)
    )
}
