//! The sweep as it was read, and the plan that it comes to on given targets.

use serde::{Deserialize, Serialize};

use crate::block::{Draft, Expansion, MAX_CELLS, inherit, notes, refuse_both};
use crate::cell::Cell;
use crate::error::{Place, SweepError, grouped, nearest, one_of};
use crate::file::{MAX_BLOCKS, Reps, Seed, SweepFile, Workers, too_many};
use crate::fleet::Fleet;
use crate::keys::{BlockFile, check_keys, workload_of};
use crate::named::{DEFAULT_TARGET, Named, check_targets, resolve, targets};
use crate::read::{TAG, read};
use crate::scalar::{Axis, Raw, check};
use crate::target::{AddressKind, TargetSpec};
use crate::tree::Node;
use crate::value::Name;
use crate::workloads::{DEFAULT_REPS, Workload};

/// A sweep file that was read and found good; [`Sweep::plan`] puts it on
/// targets.
#[derive(Clone, Debug)]
pub struct Sweep {
    name: String,
    about: Option<String>,
    preset: Option<String>,
    seed: u64,
    targets: Vec<Named>,
    fleet: Fleet,
    drafts: Vec<Draft>,
}

/// What the command line puts in place of what the file says.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Seed of everything random.
    pub seed: Option<u64>,
    /// Repetitions of every cell.
    pub reps: Option<u32>,
    /// Workers of a wave.
    pub workers: Option<u32>,
    /// Targets: `URL` replaces the default target, `NAME=URL` the named one.
    pub on: Vec<String>,
}

/// What is to be run: every cell, complete, and the targets that they run on.
///
/// It serialises without passwords, to be shown and kept. What comes back from
/// that is the same plan, but for the passwords ([`Plan::check_fleet`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the sweep.
    pub name: String,
    /// What it is for.
    pub about: Option<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// The targets that cells run on, the default target first.
    pub targets: Vec<TargetSpec>,
    /// How a fleet runs it.
    #[serde(default)]
    pub fleet: Fleet,
    /// The matrix, in order.
    pub cells: Vec<Cell>,
    /// What a reader should know about cells that may run but may surprise.
    pub notes: Vec<String>,
}

/// Reads a sweep file.
///
/// # Errors
/// When it can't be used as a whole; nothing is then.
pub fn parse(text: &str) -> Result<Sweep, SweepError> {
    from_tree(&Node::parse(text)?)
}

pub(crate) fn from_tree(tree: &Node) -> Result<Sweep, SweepError> {
    let blocks = tree.get("blocks").map_or(&[][..], Node::elements);
    let defaults = tree.get("defaults");
    let workloads = workloads(blocks, defaults)?;
    // The first reading checks every value where it is written; the second,
    // below, reads each block again with what it inherits.
    let file: SweepFile = read(tree, &Place::top())?;
    if let Some(defaults) = defaults {
        refuse_both(defaults, &Place::from("defaults"))?;
    }
    let targets = targets(file.targets.as_deref())?;
    let preset = file.preset.map(|preset| preset.0.0);
    let everywhere: Vec<Name> = match (&preset, targets.is_empty()) {
        (None, false) => targets.iter().map(|t| Name(t.name.clone())).collect(),
        _ => vec![Name(DEFAULT_TARGET.to_owned())],
    };

    if file.blocks.is_empty() {
        return Err(SweepError::at("blocks", "empty; give at least one block"));
    }
    if blocks.len() > MAX_BLOCKS {
        return Err(too_many("blocks", blocks.len(), MAX_BLOCKS));
    }
    let mut names: Vec<String> = Vec::new();
    let mut drafts = Vec::new();
    for (i, (own, workload)) in blocks.iter().zip(workloads).enumerate() {
        let place = Place::from("blocks").index(i);
        refuse_both(own, &place)?;
        let merged = inherit(defaults, own, workload);
        let mut block: BlockFile = read(&merged, &place)?;
        let Some(name) = block.name.as_ref().map(|name| name.0.0.clone()) else {
            return Err(SweepError::at(
                place.key("name"),
                "missing; it must be given",
            ));
        };
        if let Some(first) = names.iter().position(|known| *known == name) {
            return Err(SweepError::at(
                place.key("name"),
                format!("{name:?} is the name of blocks[{first}] as well; give another"),
            ));
        }
        if block.target.values().is_empty() {
            block.target = Axis::of(everywhere.clone());
        }
        let expansion = Expansion {
            workload,
            block: &block,
            merged: &merged,
            own,
            place,
            name: &name,
        };
        drafts.extend(expansion.cells()?);
        if drafts.len() > MAX_CELLS {
            return Err(SweepError::at(
                "blocks",
                format!(
                    "they make more than {} cells; make fewer or shorter lists",
                    grouped(MAX_CELLS as u64)
                ),
            ));
        }
        names.push(name);
    }
    check_targets(&targets, &drafts, preset.is_some())?;
    Ok(Sweep {
        name: file.name.0.0,
        about: file.about.map(|about| about.0.0),
        preset,
        seed: file.seed.map_or(1, |seed| seed.0.0),
        targets,
        fleet: Fleet::of(&file.fleet),
        drafts,
    })
}

/// The workload of every block, once the keys of the blocks and of `defaults`
/// are found to be theirs. Of a block that is no object nothing is said here:
/// reading the file will.
fn workloads(blocks: &[Node], defaults: Option<&Node>) -> Result<Vec<Workload>, SweepError> {
    let mut workloads = Vec::new();
    for (i, block) in blocks.iter().enumerate() {
        let place = Place::from("blocks").index(i);
        if let Some(workload) = workload_of(block, &place)? {
            check_keys(block, &place, &[workload])?;
            workloads.push(workload);
        }
    }
    let Some(defaults) = defaults else {
        return Ok(workloads);
    };
    let place = Place::from("defaults");
    for key in ["name", TAG] {
        if defaults.get(key).is_some() {
            let problem = format!("a {key} is not inherited; give every block its own");
            return Err(SweepError::at(place.key(key), problem));
        }
    }
    let all = Workload::all();
    let takers = match workloads.is_empty() {
        true => all.as_slice(),
        false => workloads.as_slice(),
    };
    check_keys(defaults, &place, takers)?;
    Ok(workloads)
}

impl Sweep {
    /// Name of the sweep.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is to be run, with the overrides in place.
    ///
    /// # Errors
    /// When an override is refused or a block has no target to run on.
    pub fn plan(&self, overrides: &Overrides) -> Result<Plan, SweepError> {
        let seed = match overrides.seed {
            None => self.seed,
            Some(seed) => {
                check::<Seed>(Raw::Whole(seed.into()))
                    .map_err(|problem| SweepError::at("--seed", problem))?
                    .0
            }
        };
        if let Some(reps) = overrides.reps {
            check::<Reps>(Raw::Whole(reps.into()))
                .map_err(|problem| SweepError::at("--reps", problem))?;
        }
        let mut fleet = self.fleet.clone();
        if let Some(workers) = overrides.workers {
            check::<Workers>(Raw::Whole(workers.into()))
                .map_err(|problem| SweepError::at("--workers", problem))?;
            fleet.workers = workers;
        }
        let uses = |name: &str| self.drafts.iter().find(|draft| draft.target == name);
        let uses_default = uses(DEFAULT_TARGET).is_some();
        let preset = self.preset.as_deref();
        let (default, named) = resolve(preset, &self.targets, uses_default, &overrides.on)?;
        if let (None, Some(draft)) = (&default, uses(DEFAULT_TARGET)) {
            return Err(SweepError::at(
                &draft.target_place,
                "no target to run on; give the sweep a `preset` such as \"us-pair-workstation\", or `targets`, or say --on URL",
            ));
        }
        let default = default.filter(|_| uses_default);
        let (absent, named): (Vec<Named>, Vec<Named>) =
            named.into_iter().partition(|target| target.spec.is_none());
        let (left_out, drafts): (Vec<&Draft>, Vec<&Draft>) = self
            .drafts
            .iter()
            .partition(|draft| absent.iter().any(|target| target.name == draft.target));
        if let ([], Some(draft)) = (drafts.as_slice(), left_out.first()) {
            return Err(SweepError::at(
                &draft.target_place,
                format!(
                    "no cell has a target with an address; say --on {}=URL",
                    draft.target
                ),
            ));
        }
        let mut notes = notes(&drafts);
        for Named { name, .. } in &absent {
            let cells = left_out
                .iter()
                .filter(|draft| draft.target == *name)
                .count();
            notes.push(format!(
                "target {name} has no address, so its cells ({cells}) are left out; --on {name}=URL runs them"
            ));
        }
        let cells = drafts
            .iter()
            .map(|draft| Cell {
                id: draft.id.clone(),
                block: draft.block.clone(),
                target: match &default {
                    Some(target) if draft.target == DEFAULT_TARGET => target.name.clone(),
                    _ => draft.target.clone(),
                },
                params: draft.params.clone(),
                reps: overrides.reps.or(draft.reps).unwrap_or(DEFAULT_REPS),
                raw: draft.raw,
                thresholds: draft.thresholds.clone(),
            })
            .collect();
        Ok(Plan {
            name: self.name.clone(),
            about: self.about.clone(),
            seed,
            targets: default
                .into_iter()
                .chain(named.into_iter().filter_map(|target| target.spec))
                .collect(),
            fleet,
            cells,
            notes,
        })
    }
}

impl Plan {
    /// The target that a cell runs on.
    pub fn target_of(&self, cell: &Cell) -> Option<&TargetSpec> {
        self.targets
            .iter()
            .find(|target| target.name == cell.target)
    }

    /// Checks that every simulated target has a preset that exists.
    ///
    /// # Errors
    /// The first that does not, with those that do.
    pub fn check_presets(&self, known: &[&str]) -> Result<(), SweepError> {
        for target in &self.targets {
            if let AddressKind::Simulator { preset } = target.address.kind()
                && !known.contains(&preset.as_str())
            {
                let near = nearest(preset, known)
                    .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                return Err(SweepError::at(
                    &target.place,
                    format!(
                        "the simulator has no preset {preset:?}; it has {}{near}",
                        one_of(known)
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Checks that the placements of all cells on `target` are endpoints that
    /// it has.
    ///
    /// # Errors
    /// The first cell whose placement is not.
    pub fn check_placements(&self, target: &str, endpoints: &[String]) -> Result<(), SweepError> {
        for cell in self.cells.iter().filter(|cell| cell.target == target) {
            let placement = cell.params.shape().placement;
            if let Err(problem) = placement.endpoint_of(0, endpoints) {
                let place = format!("cell {}", cell.id);
                return Err(SweepError::at(place.as_str(), problem.to_string()));
            }
        }
        Ok(())
    }
}
