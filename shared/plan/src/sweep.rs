//! The sweep as it was read, and the plan that it comes to on given targets.

use serde::{Deserialize, Serialize};

use crate::block::{Draft, Expansion, MAX_CELLS, inherit, notes, refuse_both};
use crate::cell::Cell;
use crate::error::{Place, SweepError, grouped, nearest, one_of, quote};
use crate::file::{
    Block, DEFAULT_REPS, MAX_BLOCKS, MAX_TARGETS, Reps, Seed, SweepFile, TargetFile, Workers,
};
use crate::fleet::Fleet;
use crate::read::read;
use crate::scalar::{Axis, Raw, check};
use crate::target::{Address, AddressKind, TargetSpec};
use crate::tree::Node;
use crate::value::Name;

/// The name by which a block picks the sweep's default target.
pub(crate) const DEFAULT_TARGET: &str = "default";

/// A sweep file that was read and found good; [`Sweep::plan`] puts it on
/// targets.
#[derive(Clone, Debug)]
pub struct Sweep {
    name: String,
    about: Option<String>,
    preset: Option<String>,
    seed: u64,
    targets: Vec<TargetSpec>,
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
    // The first reading checks every value where it is written; the second,
    // below, reads each block again with what it inherits.
    let file: SweepFile = read(tree, &Place::top())?;
    let defaults = tree.get("defaults");
    if file.defaults.name.is_some() {
        return Err(SweepError::at(
            "defaults.name",
            "a name is not inherited; give every block its own",
        ));
    }
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
    let blocks = tree.get("blocks").map_or(&[][..], Node::elements);
    if blocks.len() > MAX_BLOCKS {
        return Err(too_many("blocks", blocks.len(), MAX_BLOCKS));
    }
    let mut names: Vec<String> = Vec::new();
    let mut drafts = Vec::new();
    for (i, own) in blocks.iter().enumerate() {
        let place = Place::from("blocks").index(i);
        refuse_both(own, &place)?;
        let merged = inherit(defaults, own);
        let Block::Append(mut block) = read(&merged, &place)?;
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

fn too_many(what: &str, count: usize, most: usize) -> SweepError {
    let (count, most) = (grouped(count as u64), grouped(most as u64));
    SweepError::at(what, format!("{count} of them; at most {most}"))
}

/// The named targets of the file.
fn targets(files: Option<&[TargetFile]>) -> Result<Vec<TargetSpec>, SweepError> {
    let Some(files) = files else {
        return Ok(Vec::new());
    };
    if files.is_empty() {
        return Err(SweepError::at(
            "targets",
            "empty; give at least one target, or leave the key out",
        ));
    }
    if files.len() > MAX_TARGETS {
        return Err(too_many("targets", files.len(), MAX_TARGETS));
    }
    let mut specs: Vec<TargetSpec> = Vec::new();
    for (i, file) in files.iter().enumerate() {
        let place = Place::from("targets").index(i);
        let name = file.name.0.0.clone();
        if name == DEFAULT_TARGET {
            return Err(SweepError::at(
                place.key("name"),
                "`default` means the sweep's preset; give another name",
            ));
        }
        if let Some(first) = specs.iter().position(|spec| spec.name == name) {
            return Err(SweepError::at(
                place.key("name"),
                format!("{name:?} is the name of targets[{first}] as well; give another"),
            ));
        }
        let (key, address) = address(file).map_err(|problem| SweepError::at(&place, problem))?;
        let mut spec = TargetSpec::new(name, address, place.key(key));
        spec.network = file.network.as_ref().map(|network| network.0.0.clone());
        if !file.regions.values().is_empty() {
            spec.regions = regions(file, &spec.address)
                .map_err(|problem| SweepError::at(place.key("regions"), problem))?;
        }
        specs.push(spec);
    }
    Ok(specs)
}

/// The address of a target and the key that gave it.
fn address(file: &TargetFile) -> Result<(&'static str, Address), String> {
    let hosts = file.endpoints.values();
    match (&file.url, &file.secret, hosts) {
        (Some(url), None, []) => Ok(("url", url.0.clone())),
        (None, Some(secret), []) => Ok(("secret", Address::secret(&secret.0.0))),
        (None, None, [_, ..]) => {
            let hosts: Vec<&str> = hosts.iter().map(|host| host.0.as_str()).collect();
            Address::parse(&format!("dsql://{}", hosts.join(",")))
                .map(|address| ("endpoints", address))
        }
        (None, None, []) => Err("no address; give `url`, `secret` or `endpoints`".to_owned()),
        _ => Err("more than one address; give one of `url`, `secret` and `endpoints`".to_owned()),
    }
}

/// The regions that a target gives: one for each endpoint, or one for all.
fn regions(file: &TargetFile, address: &Address) -> Result<Vec<String>, String> {
    let given: Vec<String> = file.regions.values().iter().map(|r| r.0.clone()).collect();
    match (given.len(), address.hosts().len()) {
        // Of other targets the number of endpoints is not known from here.
        (1, _) | (_, 0) => Ok(given),
        (given, hosts) if given != hosts => Err(format!(
            "{given} regions for {hosts} endpoints; give one for each, or one for all"
        )),
        _ => Ok(given),
    }
}

/// Every target that a block picks is there, and every one that is there is
/// picked.
fn check_targets(
    targets: &[TargetSpec],
    drafts: &[Draft],
    has_preset: bool,
) -> Result<(), SweepError> {
    let mut known: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    known.push(DEFAULT_TARGET);
    if let Some(draft) = drafts.iter().find(|d| !known.contains(&d.target.as_str())) {
        let near = nearest(&draft.target, &known)
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return Err(SweepError::at(
            &draft.target_place,
            format!(
                "no target is named {:?}; the sweep has {}{near}",
                draft.target,
                one_of(&known)
            ),
        ));
    }
    let idle = targets
        .iter()
        .position(|target| !drafts.iter().any(|draft| draft.target == target.name));
    match idle {
        None => Ok(()),
        Some(i) => {
            let remedy = match has_preset {
                true => {
                    "name it in a block's `target`, or leave out `preset` so that blocks run on every target"
                }
                false => "name it in a block's `target`, or leave it out",
            };
            Err(SweepError::at(
                Place::from("targets").index(i),
                format!("no block runs on {:?}; {remedy}", targets[i].name),
            ))
        }
    }
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
        let (default, named) = self.resolve(&overrides.on)?;
        let uses = |name: &str| self.drafts.iter().find(|draft| draft.target == name);
        if let (None, Some(draft)) = (&default, uses(DEFAULT_TARGET)) {
            return Err(SweepError::at(
                &draft.target_place,
                "no target to run on; give the sweep a `preset` such as \"us-pair-workstation\", or `targets`, or say --on URL",
            ));
        }
        let default = default.filter(|_| uses(DEFAULT_TARGET).is_some());
        let cells = self
            .drafts
            .iter()
            .map(|draft| Cell {
                id: draft.id.clone(),
                block: draft.block.clone(),
                target: match &default {
                    Some(target) if draft.target == DEFAULT_TARGET => target.name.clone(),
                    _ => draft.target.clone(),
                },
                params: draft.params(),
                reps: overrides.reps.or(draft.reps).unwrap_or(DEFAULT_REPS),
                raw: draft.raw,
                thresholds: draft.thresholds.clone(),
            })
            .collect();
        Ok(Plan {
            name: self.name.clone(),
            about: self.about.clone(),
            seed,
            targets: default.into_iter().chain(named).collect(),
            fleet,
            cells,
            notes: notes(&self.drafts),
        })
    }

    /// The default target, where there is one, and the named ones, after
    /// `--on`.
    fn resolve(&self, on: &[String]) -> Result<(Option<TargetSpec>, Vec<TargetSpec>), SweepError> {
        let mut default = self
            .preset
            .as_ref()
            .map(|preset| default_target(Address::simulator(preset), "preset".into()));
        let mut named = self.targets.clone();
        let mut replaced: Vec<String> = Vec::new();
        for given in on {
            let (name, address) = self.override_of(given)?;
            if replaced.contains(&name) {
                return Err(SweepError::at(
                    "--on",
                    format!("target `{name}` is given twice; keep one"),
                ));
            }
            match named.iter_mut().find(|target| target.name == name) {
                // What the file says about the way and the regions holds for
                // its own address.
                Some(target) => *target = TargetSpec::new(name.clone(), address, "--on".into()),
                None => default = Some(default_target(address, "--on".into())),
            }
            replaced.push(name);
        }
        Ok((default, named))
    }

    /// Which target an `--on` replaces, and by what.
    fn override_of(&self, given: &str) -> Result<(String, Address), SweepError> {
        let refuse = |problem: String| Err(SweepError::at("--on", problem));
        let uses_default = self
            .drafts
            .iter()
            .any(|draft| draft.target == DEFAULT_TARGET);
        let names: Vec<&str> = self.targets.iter().map(|t| t.name.as_str()).collect();
        // A URL's query may hold a `=`; a target's name never holds a colon.
        let (name, url) = match given.split_once('=') {
            Some((name, url)) if !name.contains(':') => (Some(name), url),
            _ => (None, given),
        };
        let name = match name {
            Some(name) if names.contains(&name) => name,
            Some(DEFAULT_TARGET) if uses_default => DEFAULT_TARGET,
            Some(name) => {
                let mut known = names.clone();
                if uses_default {
                    known.push(DEFAULT_TARGET);
                }
                return refuse(format!(
                    "no target is named {}; the sweep has {}",
                    quote(name),
                    one_of(&known)
                ));
            }
            None if uses_default => DEFAULT_TARGET,
            None => match names.as_slice() {
                [only] => only,
                _ => {
                    return refuse(format!(
                        "every block runs on named targets; say which to replace: NAME=URL with {}",
                        one_of(&names)
                    ));
                }
            },
        };
        match Address::parse(url) {
            Ok(address) => Ok((name.to_owned(), address)),
            Err(problem) if problem.contains(Address::FORMS) => {
                refuse(format!("{problem}, or NAME= one of these"))
            }
            Err(problem) => refuse(problem),
        }
    }
}

fn default_target(address: Address, place: Place) -> TargetSpec {
    TargetSpec::new(address.to_string(), address, place)
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
