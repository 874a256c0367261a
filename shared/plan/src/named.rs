//! The targets of a sweep: those that the file names, the default one, and what
//! `--on` puts in their place.
//!
//! A named target may have no address (`"url": null`): it is there for the
//! blocks that pick it, and its cells are left out until `--on NAME=URL` gives
//! it one. So a sweep can hold its controls and still run where there are none.

use crate::block::Draft;
use crate::error::{Place, SweepError, nearest, one_of, quote};
use crate::file::{MAX_TARGETS, TargetFile, too_many};
use crate::target::{Address, TargetSpec};

/// The name by which a block picks the sweep's default target.
pub(crate) const DEFAULT_TARGET: &str = "default";

/// A target that the file names.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub name: String,
    /// `None` until it has an address.
    pub spec: Option<TargetSpec>,
}

/// The named targets of the file.
pub(crate) fn targets(files: Option<&[TargetFile]>) -> Result<Vec<Named>, SweepError> {
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
    let mut all: Vec<Named> = Vec::new();
    for (i, file) in files.iter().enumerate() {
        let place = Place::from("targets").index(i);
        let name = file.name.0.0.clone();
        if name == DEFAULT_TARGET {
            return Err(SweepError::at(
                place.key("name"),
                "`default` means the sweep's preset; give another name",
            ));
        }
        if let Some(first) = all.iter().position(|known| known.name == name) {
            return Err(SweepError::at(
                place.key("name"),
                format!("{name:?} is the name of targets[{first}] as well; give another"),
            ));
        }
        let spec = address(file)
            .map_err(|problem| SweepError::at(&place, problem))?
            .map(|(key, address)| spec(file, name.clone(), address, &place, key))
            .transpose()?;
        all.push(Named { name, spec });
    }
    Ok(all)
}

fn spec(
    file: &TargetFile,
    name: String,
    address: Address,
    place: &Place,
    key: &str,
) -> Result<TargetSpec, SweepError> {
    let mut spec = TargetSpec::new(name, address, place.key(key));
    spec.network = file.network.as_ref().map(|network| network.0.0.clone());
    if !file.regions.values().is_empty() {
        spec.regions = regions(file, &spec.address)
            .map_err(|problem| SweepError::at(place.key("regions"), problem))?;
    }
    Ok(spec)
}

/// The address of a target, where it has one, and the key that gave it.
fn address(file: &TargetFile) -> Result<Option<(&'static str, Address)>, String> {
    let hosts = file.endpoints.values();
    match (&file.url, &file.secret, hosts) {
        (Some(url), None, []) => Ok(url.0.0.clone().map(|address| ("url", address))),
        (None, Some(secret), []) => Ok(Some(("secret", Address::secret(&secret.0.0)))),
        (None, None, [_, ..]) => {
            let hosts: Vec<&str> = hosts.iter().map(|host| host.0.as_str()).collect();
            Address::parse(&format!("dsql://{}", hosts.join(",")))
                .map(|address| Some(("endpoints", address)))
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
pub(crate) fn check_targets(
    targets: &[Named],
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

/// The default target, where there is one, and the named ones, after `--on`.
pub(crate) fn resolve(
    preset: Option<&str>,
    named: &[Named],
    uses_default: bool,
    on: &[String],
) -> Result<(Option<TargetSpec>, Vec<Named>), SweepError> {
    let mut default =
        preset.map(|preset| default_target(Address::simulator(preset), "preset".into()));
    let mut named = named.to_vec();
    let mut replaced: Vec<String> = Vec::new();
    for given in on {
        let (name, address) = override_of(given, &named, uses_default)?;
        if replaced.contains(&name) {
            return Err(SweepError::at(
                "--on",
                format!("target `{name}` is given twice; keep one"),
            ));
        }
        match named.iter_mut().find(|target| target.name == name) {
            // What the file says about the way and the regions holds for its
            // own address.
            Some(target) => {
                target.spec = Some(TargetSpec::new(name.clone(), address, "--on".into()));
            }
            None => default = Some(default_target(address, "--on".into())),
        }
        replaced.push(name);
    }
    Ok((default, named))
}

/// Which target an `--on` replaces, and by what.
fn override_of(
    given: &str,
    named: &[Named],
    uses_default: bool,
) -> Result<(String, Address), SweepError> {
    let refuse = |problem: String| Err(SweepError::at("--on", problem));
    let names: Vec<&str> = named.iter().map(|target| target.name.as_str()).collect();
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

fn default_target(address: Address, place: Place) -> TargetSpec {
    TargetSpec::new(address.to_string(), address, place)
}
