//! `fabric cluster`: a DSQL cluster or a peered pair, made, shown and deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Clock;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use drive::Stop;

use crate::args::{ClusterCommand, ClusterCreate, ClusterDelete, ClusterStatus, Which};
use crate::cloud::cluster::{self, Cluster};
use crate::cloud::create::{Create, Halt, Wanted};
use crate::cloud::delete::{self, Deletion, How};
use crate::cloud::manifest::{Made, Manifest};
use crate::cloud::{Cloud, check_region};
use crate::failure::Failure;
use crate::results;

/// Carries out one of its verbs; returns the exit code.
///
/// # Errors
/// When it could not be begun, or nothing came of it.
pub fn cluster(command: &ClusterCommand) -> Result<u8, Failure> {
    let runtime = clock::real_runtime()
        .map_err(|error| Failure::Other(format!("cannot start a runtime: {error}")))?;
    match command {
        ClusterCommand::Create(args) => {
            let wanted = wanted(args)?;
            runtime.block_on(create(args, wanted))
        }
        ClusterCommand::Status(args) => runtime.block_on(status(args)),
        ClusterCommand::Delete(args) => runtime.block_on(delete(args)),
    }
}

/// Checks the flags of `create`.
fn wanted(args: &ClusterCreate) -> Result<Wanted, Failure> {
    let refused = |why: String| Err(Failure::Other(why));
    check_regions(&args.regions)?;
    match (args.regions.as_slice(), &args.witness) {
        ([_], None) => {}
        ([_], Some(_)) => {
            return refused(
                "--witness: only a pair has one; give two regions, or leave it out".to_owned(),
            );
        }
        ([a, b], Some(witness)) => {
            check_region(witness).map_err(|why| Failure::Other(format!("--witness: {why}")))?;
            if a == b {
                return refused(format!("--regions: {a} twice; a pair has two regions"));
            }
            if witness == a || witness == b {
                return refused(format!(
                    "--witness: {witness} is one of the pair's regions; give a third one"
                ));
            }
        }
        ([_, _], None) => {
            return refused(
                "--regions: a pair needs a third region as its witness; add --witness REGION"
                    .to_owned(),
            );
        }
        (regions, _) => {
            let n = regions.len();
            return refused(format!(
                "--regions: {n} regions; give one, or two for a pair"
            ));
        }
    }
    let name = match &args.name {
        Some(name) => {
            check_name("--name", name)?;
            name.clone()
        }
        None => new_name(),
    };
    if let Some(stack) = &args.stack {
        check_name("--stack", stack)?;
    }
    let mut tags = BTreeMap::new();
    for given in &args.tag {
        let (key, value) = tag(given)?;
        if tags.insert(key.clone(), value).is_some() {
            return refused(format!("--tag: {key} twice"));
        }
    }
    // A resource has at most 50, three of them are ours.
    if tags.len() > 47 {
        return refused(format!("--tag: {} tags; at most 47 fit", tags.len()));
    }
    Ok(Wanted {
        name,
        regions: args.regions.clone(),
        witness: args.witness.clone(),
        stack: args.stack.clone(),
        tags,
        deletion_protection: args.deletion_protection,
        limit: Duration::from_secs(args.timeout_s),
    })
}

fn check_regions(regions: &[String]) -> Result<(), Failure> {
    for region in regions {
        check_region(region).map_err(|why| Failure::Other(format!("--regions: {why}")))?;
    }
    Ok(())
}

/// What fits into a tag, a stack's name and a shell's word.
fn check_name(flag: &str, name: &str) -> Result<(), Failure> {
    let good = name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if good {
        return Ok(());
    }
    Err(Failure::Other(format!(
        "{flag} '{name}': give at most 64 letters, digits, '-', '_' or '.', the first a letter or \
         a digit"
    )))
}

fn tag(given: &str) -> Result<(String, String), Failure> {
    let refused = |why: &str| Err(Failure::Other(format!("--tag '{given}': {why}")));
    let Some((key, value)) = given.split_once('=') else {
        return refused("give KEY=VALUE");
    };
    if key.is_empty() || key.chars().count() > 128 || value.chars().count() > 256 {
        return refused("a key has 1 to 128 characters and a value at most 256");
    }
    if key.starts_with("aws:") || key.starts_with("dsql-fabric:") {
        return refused(
            "this prefix is taken; give a key without it (--name and --stack set ours)",
        );
    }
    let fits = |text: &str| {
        text.chars()
            .all(|c| c.is_alphanumeric() || c == ' ' || "_.:/=+-@".contains(c))
    };
    if !fits(key) || !fits(value) {
        return refused("letters, digits, spaces and _ . : / = + - @ are accepted");
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// `fabric-` and the second, UTC.
fn new_name() -> String {
    let utc = report::utc(Clock::real().wall());
    let second: String = utc
        .chars()
        .take(19)
        .filter(|c| c.is_ascii_digit())
        .collect();
    format!("fabric-{second}")
}

async fn create(args: &ClusterCreate, wanted: Wanted) -> Result<u8, Failure> {
    let cloud = Cloud::open(Clock::real()).await;
    let manifest = Manifest::at(args.manifest.as_deref(), &cloud)?;
    let say = |line: &str| eprintln!("{line}");
    say(&format!(
        "creating {} ({}); what is asked for is noted in {}",
        wanted.name,
        wanted.regions.join(" and "),
        manifest.path().display()
    ));
    let begun = cloud.clock().now();
    let mut work = Create::new(&cloud, &manifest, &wanted, &say, stop_on_interrupt());
    let done = work.run().await;
    let total_s = cloud.clock().now().since(begun).as_secs_f64();
    let nothing = work.clusters.is_empty() && work.unknown.is_empty();
    if let Err(halt) = &done
        && nothing
    {
        return Err(Failure::Other(halt.to_string()));
    }
    if args.json {
        let report = serde_json::json!({
            "name": wanted.name,
            "done": done.is_ok(),
            "halted_because": done.as_ref().err().map(ToString::to_string),
            "clusters": work.clusters,
            "unknown_in": work.unknown,
            "url": url(&work.clusters),
            "steps": work.steps,
            "total_s": total_s,
            "manifest": manifest.path(),
        });
        print_json(&report)?;
    } else {
        let mut out = format!("{}\n", table(&work.clusters));
        for step in &work.steps {
            out.push_str(&format!("{:>8.1} s  {}\n", step.s, step.step));
        }
        out.push_str(&format!("{total_s:>8.1} s  in all\n"));
        if done.is_ok() {
            out.push_str(&format!("{}\n", url(&work.clusters)));
        }
        results::print(&out)?;
    }
    match done {
        Ok(()) => Ok(0),
        Err(halt) => {
            eprintln!("error: {}", unfinished(&halt, &work, &wanted));
            Ok(2)
        }
    }
}

/// Exactly what exists, and what to do about it.
fn unfinished(halt: &Halt, work: &Create<'_>, wanted: &Wanted) -> String {
    let mut exists: Vec<String> = work
        .clusters
        .iter()
        .map(|c| format!("{} in {} ({})", c.id, c.region, c.status))
        .collect();
    exists.extend(
        work.unknown
            .iter()
            .map(|region| format!("perhaps one in {region}, whose create was not answered")),
    );
    let (name, regions) = (&wanted.name, wanted.regions.join(","));
    format!(
        "{halt}; what exists: {}; go on with the same command and --name {name}, or delete it: \
         fabric cluster delete --name {name} --regions {regions}",
        exists.join(", ")
    )
}

async fn status(args: &ClusterStatus) -> Result<u8, Failure> {
    let cloud = Cloud::open(Clock::real()).await;
    let manifest = Manifest::at(args.which.manifest.as_deref(), &cloud)?;
    let clusters = find(&cloud, &manifest, &args.which).await?;
    if clusters.is_empty() && (args.which.name.is_some() || !args.which.id.is_empty()) {
        return Err(Failure::Other(not_found(&args.which)));
    }
    let url = url(&clusters);
    if args.which.json {
        print_json(&serde_json::json!({
            "clusters": clusters,
            "url": args.which.name.as_ref().map(|_| url),
            "manifest": manifest.path(),
        }))?;
    } else if clusters.is_empty() {
        let path = manifest.path().display();
        results::print(&format!("no cluster that {path} knows of exists\n"))?;
    } else {
        let mut out = format!("{}\n", table(&clusters));
        if args.which.name.is_some() {
            out.push_str(&format!("{url}\n"));
        }
        results::print(&out)?;
    }
    let usable = clusters.iter().all(Cluster::is_usable);
    Ok(if usable { 0 } else { 2 })
}

async fn delete(args: &ClusterDelete) -> Result<u8, Failure> {
    let which = &args.which;
    if which.name.is_none() && which.id.is_empty() {
        let problem = "say which: --name NAME, or --id ID with --regions REGION; `fabric cluster \
                       status` lists what the manifest knows of";
        return Err(Failure::Other(problem.to_owned()));
    }
    let cloud = Cloud::open(Clock::real()).await;
    let manifest = Manifest::at(which.manifest.as_deref(), &cloud)?;
    let clusters = find(&cloud, &manifest, which).await?;
    let clusters = delete::with_peers(&cloud, clusters).await?;
    let strangers: Vec<&str> = clusters
        .iter()
        .filter(|cluster| cluster.name().is_none())
        .map(|cluster| cluster.id.as_str())
        .collect();
    if !strangers.is_empty() && !args.force {
        return Err(Failure::Other(format!(
            "{}: without the tag {}, so not made by this command; --force deletes it all the same",
            strangers.join(", "),
            crate::cloud::TAG_NAME
        )));
    }
    let say = |line: &str| eprintln!("{line}");
    let how = How {
        force: args.force,
        limit: Duration::from_secs(args.timeout_s),
    };
    let mut stop = stop_on_interrupt();
    let deletion = delete::delete(&cloud, &manifest, &clusters, how, &say, &mut stop).await?;
    let left = settle_named(&cloud, &manifest, which).await?;
    if clusters.is_empty() && left.is_empty() {
        if !was_known(&manifest, which)? {
            return Err(Failure::Other(not_found(which)));
        }
        say("nothing is left of it");
    }
    show_deletion(&deletion, &left, &manifest, which.json)?;
    for problem in deletion.problems.iter().chain(&left) {
        eprintln!("error: {problem}");
    }
    Ok(if deletion.is_confirmed() && left.is_empty() {
        0
    } else {
        2
    })
}

fn show_deletion(
    deletion: &Deletion,
    left: &[String],
    manifest: &Manifest,
    json: bool,
) -> Result<(), Failure> {
    if json {
        return print_json(&serde_json::json!({
            "confirmed": deletion.is_confirmed() && left.is_empty(),
            "clusters": deletion.clusters,
            "problems": deletion.problems.iter().chain(left).collect::<Vec<_>>(),
            "manifest": manifest.path(),
        }));
    }
    if deletion.clusters.is_empty() {
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["region", "id", "created", "deletion asked", "gone", "s"]);
    for gone in &deletion.clusters {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        table.add_row([
            gone.region.clone(),
            gone.id.clone(),
            gone.created_utc.clone(),
            or_dash(&gone.requested_utc),
            or_dash(&gone.confirmed_utc),
            gone.s.map_or("-".to_owned(), |s| format!("{s:.1}")),
        ]);
    }
    results::print(&format!("{table}\n"))
}

/// Closes what the manifest holds open under the name and is not there; says
/// what may still come up.
async fn settle_named(
    cloud: &Cloud,
    manifest: &Manifest,
    which: &Which,
) -> Result<Vec<String>, Failure> {
    let Some(name) = which.name.as_deref() else {
        return Ok(Vec::new());
    };
    let open = delete::settle(cloud, manifest, |entry| {
        entry.asked.name.as_deref() == Some(name)
    })
    .await?;
    let lost = open.into_iter().filter(|(_, cluster)| cluster.is_none());
    Ok(lost
        .map(|(entry, _)| {
            let (region, at) = (entry.asked.region, entry.asked.at);
            format!(
                "{region}: a create was sent at {at} and never answered; nothing is listed yet, \
                 run this again in a minute"
            )
        })
        .collect())
}

/// The clusters that the flags name.
async fn find(cloud: &Cloud, manifest: &Manifest, which: &Which) -> Result<Vec<Cluster>, Failure> {
    check_regions(&which.regions)?;
    let mut clusters = Vec::new();
    if !which.id.is_empty() {
        for given in &which.id {
            clusters.extend(by_id(cloud, which, given).await?);
        }
    } else if let Some(name) = &which.name {
        for region in regions_of(manifest, which, name)? {
            clusters.extend(cluster::named(cloud, &region, name).await?);
        }
    } else {
        let open = delete::settle(cloud, manifest, |entry| {
            which.regions.is_empty() || which.regions.contains(&entry.asked.region)
        });
        clusters.extend(open.await?.into_iter().filter_map(|(_, cluster)| cluster));
    }
    Ok(clusters)
}

async fn by_id(cloud: &Cloud, which: &Which, given: &str) -> Result<Option<Cluster>, Failure> {
    let id = cluster::id_of(given);
    if id.len() != 26 || !id.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(Failure::Other(format!(
            "--id '{given}': give a cluster's 26 letters and digits, or its ARN"
        )));
    }
    let regions = match cluster::region_of(given) {
        Some(region) => vec![region.to_owned()],
        None if which.regions.is_empty() => default_region("--id")?,
        None => which.regions.clone(),
    };
    for region in regions {
        if let Some(cluster) = cluster::get(cloud, &region, id).await?
            && cluster::region_of(&cluster.arn).is_none_or(|at| at == region)
        {
            return Ok(Some(cluster));
        }
    }
    Ok(None)
}

/// Where to look for a name: where the flags say, else where the manifest says
/// it was made, else the default region.
fn regions_of(manifest: &Manifest, which: &Which, name: &str) -> Result<Vec<String>, Failure> {
    if !which.regions.is_empty() {
        return Ok(which.regions.clone());
    }
    // In the order in which they were made, which is the URL's.
    let mut known: Vec<String> = Vec::new();
    for entry in manifest.read()?.entries {
        let asked = entry.asked;
        if asked.made == Made::DsqlCluster
            && asked.name.as_deref() == Some(name)
            && !known.contains(&asked.region)
        {
            known.push(asked.region);
        }
    }
    if known.is_empty() {
        return default_region("--name");
    }
    Ok(known)
}

fn default_region(flag: &str) -> Result<Vec<String>, Failure> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    set("AWS_REGION")
        .or_else(|| set("AWS_DEFAULT_REGION"))
        .map(|region| vec![region])
        .ok_or_else(|| {
            Failure::Other(format!(
                "{flag}: say where to look with --regions REGION[,REGION] or AWS_REGION; the \
                 manifest does not know"
            ))
        })
}

/// Whether the manifest has ever heard of it.
fn was_known(manifest: &Manifest, which: &Which) -> Result<bool, Failure> {
    Ok(manifest.read()?.entries.iter().any(|entry| {
        let by_name = which.name.is_some() && entry.asked.name == which.name;
        let by_id = entry.arn.as_deref().is_some_and(|arn| {
            let ids = which.id.iter().map(|given| cluster::id_of(given));
            ids.into_iter().any(|id| id == cluster::id_of(arn))
        });
        by_name || by_id
    }))
}

fn not_found(which: &Which) -> String {
    let what = match &which.name {
        Some(name) => format!("no cluster named {name}"),
        None => format!("no cluster {}", which.id.join(", ")),
    };
    let place = if which.regions.is_empty() {
        "where the manifest and AWS_REGION say".to_owned()
    } else {
        format!("in {}", which.regions.join(", "))
    };
    format!("{what} {place}; --regions says where to look")
}

fn url(clusters: &[Cluster]) -> String {
    let hosts: Vec<&str> = clusters.iter().map(|c| c.host.as_str()).collect();
    format!("dsql://{}", hosts.join(","))
}

fn table(clusters: &[Cluster]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header([
        "region",
        "name",
        "status",
        "protected",
        "created",
        "host",
        "arn",
    ]);
    for cluster in clusters {
        table.add_row([
            cluster.region.as_str(),
            cluster.name().unwrap_or("-"),
            &cluster.status,
            if cluster.deletion_protection {
                "yes"
            } else {
                "no"
            },
            &cluster.created_utc,
            &cluster.host,
            &cluster.arn,
        ]);
    }
    table
}

fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| Failure::Other(error.to_string()))?;
    results::print(&format!("{text}\n"))
}

/// Ctrl-C ends the waiting, never a call that is under way; a second one ends
/// the process.
pub fn stop_on_interrupt() -> Stop {
    let (handle, stop) = drive::stop();
    let asked = std::sync::atomic::AtomicBool::new(false);
    let installed = ctrlc::set_handler(move || {
        if asked.swap(true, std::sync::atomic::Ordering::Relaxed) {
            std::process::exit(2);
        }
        eprintln!("stopping after the call under way; once more to quit at once");
        handle.stop();
    });
    if let Err(error) = installed {
        tracing::warn!(%error, "Ctrl-C will end this without saying what exists");
    }
    stop
}
