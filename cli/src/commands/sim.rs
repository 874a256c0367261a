//! `fabric sim`: the simulator as a server, and its presets.

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use sim::Credentials;
use sim::serve::{ServeOptions, Servers};

use super::run::{faults, stop_on_interrupt};
use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::results;
use crate::targets;

/// Serves a simulated cluster until Ctrl-C.
///
/// # Errors
/// When it cannot listen, or its options are refused.
pub fn serve(args: &ServeArgs) -> Result<u8, Failure> {
    let preset = targets::preset(&args.preset)?;
    let address = args.host.parse().map_err(|_| {
        let host = &args.host;
        Failure::Other(format!(
            "--host {host}: give an address such as 127.0.0.1 or ::1"
        ))
    })?;
    let options = ServeOptions {
        seed: args.seed,
        faults: faults(args.faults.as_deref())?,
        address,
        port: args.port,
        ca_file: args.ca_file.clone(),
        credentials: if args.auth {
            Some(credentials()?)
        } else {
            None
        },
        wire_delay: !args.no_wire_delay,
        ..ServeOptions::new(preset)
    };
    let runtime = clock::real_runtime()
        .map_err(|error| Failure::Other(format!("cannot start a runtime: {error}")))?;
    let (handle, mut stop) = drive::stop();
    stop_on_interrupt(handle);
    runtime.block_on(async {
        let servers = Servers::bind(options)
            .await
            .map_err(|error| Failure::Other(format!("cannot serve: {error}")))?;
        let mut lines = format!("simulating {} ({})\n", preset.name, preset.about);
        for served in servers.served() {
            let (region, at) = (&served.region, served.address);
            lines.push_str(&if args.auth {
                let host = &served.host;
                format!(
                    "  {region}: dsql://{host}:{}?hostaddr={}\n",
                    at.port(),
                    at.ip()
                )
            } else {
                format!(
                    "  {region}: psql -h {} -p {} -U admin postgres\n",
                    at.ip(),
                    at.port()
                )
            });
        }
        if args.auth {
            lines.push_str(&as_pair(&servers, args));
        }
        results::print(&lines)?;
        servers.run(stop.wait()).await;
        Ok(0)
    })
}

/// How all endpoints together are given to another command.
fn as_pair(servers: &Servers, args: &ServeArgs) -> String {
    let served = servers.served();
    let hosts: Vec<String> = served
        .iter()
        .map(|served| format!("{}:{}", served.host, served.address.port()))
        .collect();
    let ca = match &args.ca_file {
        Some(path) => path.display().to_string(),
        None => "FILE (write it with --ca-file FILE)".to_owned(),
    };
    format!(
        "with the same AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY:\n  \
         FABRIC_CA_FILE={ca} fabric run SWEEP --on 'dsql://{}?hostaddr={}'\n",
        hosts.join(","),
        args.host
    )
}

fn credentials() -> Result<Credentials, Failure> {
    let variable = |name: &str| {
        std::env::var(name).map_err(|_| {
            Failure::Other(format!("--auth: set {name}; tokens are checked against it"))
        })
    };
    Ok(Credentials::new(
        variable("AWS_ACCESS_KEY_ID")?,
        variable("AWS_SECRET_ACCESS_KEY")?,
    ))
}

/// Lists the presets with every figure and its source.
///
/// # Errors
/// None that happen: the figures serialise.
pub fn presets(json: bool) -> Result<u8, Failure> {
    if json {
        let all: Vec<_> = sim::presets().iter().map(as_json).collect();
        let text = serde_json::to_string_pretty(&all)
            .map_err(|error| Failure::Other(error.to_string()))?;
        results::print(&format!("{text}\n"))?;
        return Ok(0);
    }
    let mut out = String::new();
    for preset in sim::presets() {
        out.push_str(&format!(
            "{}: {}\nseen from: {}\n",
            preset.name, preset.about, preset.place
        ));
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_header(["endpoint", "figure", "p50 [ms]", "p99 [ms]", "source"]);
        for figure in preset.sources() {
            table.add_row([
                figure.region.to_owned(),
                figure.what.to_owned(),
                format!("{:.3}", figure.p50_ms),
                figure
                    .p99_ms
                    .map_or("-".to_owned(), |ms| format!("{ms:.3}")),
                figure.source,
            ]);
        }
        out.push_str(&format!("{table}\n\n"));
    }
    results::print(&out)?;
    Ok(0)
}

fn as_json(preset: &sim::Preset) -> serde_json::Value {
    serde_json::json!({
        "name": preset.name,
        "about": preset.about,
        "place": preset.place,
        "figures": preset.sources(),
    })
}
