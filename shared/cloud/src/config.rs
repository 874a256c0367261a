//! What the template tells a function about its stack, by environment variables.

use std::time::Duration;

/// The stack that a process belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of the stack, which all other names derive from.
    pub stack: String,
    /// Region of the table, the bucket and the control queue.
    pub home: String,
    /// Regions with workers; the first one is home.
    pub regions: Vec<String>,
    /// Name of the table.
    pub table: String,
    /// Name of the bucket.
    pub bucket: String,
    /// Longest life of a worker.
    pub worker_timeout: Duration,
}

/// Why there is no [`Config`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A variable is not set.
    #[error("the environment variable {0} is not set; the stack's template.yaml sets it")]
    Missing(&'static str),
    /// A variable does not make sense.
    #[error("the environment variable {name} is {value:?}: {problem}")]
    Bad {
        /// Which.
        name: &'static str,
        /// What it is.
        value: String,
        /// What would be accepted.
        problem: &'static str,
    },
}

/// The variable whose absence means that there is no stack at all.
const STACK: &str = "FABRIC_STACK";

impl Config {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// The first variable that is missing or does not make sense.
    pub fn from_env() -> Result<Config, ConfigError> {
        Config::read(|name| std::env::var(name).ok())
    }

    /// The same, or `None` for a function that runs on its own, without a stack.
    ///
    /// # Errors
    /// When there is a stack and something else of it is missing.
    pub fn from_env_if_any() -> Result<Option<Config>, ConfigError> {
        match Config::from_env() {
            Err(ConfigError::Missing(STACK)) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Reads variables from `variable`; an empty one is not set.
    ///
    /// # Errors
    /// The first variable that is missing or does not make sense.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        let given = |name: &'static str| {
            variable(name)
                .filter(|value| !value.trim().is_empty())
                .ok_or(ConfigError::Missing(name))
        };
        let stack = given(STACK)?;
        let home = given("FABRIC_HOME_REGION")?;
        let list = given("FABRIC_REGIONS")?;
        let regions: Vec<String> = list.split(',').map(|r| r.trim().to_owned()).collect();
        let bad = |name, value, problem| {
            Err(ConfigError::Bad {
                name,
                value,
                problem,
            })
        };
        if regions.iter().any(String::is_empty) {
            return bad(
                "FABRIC_REGIONS",
                list,
                "give regions with a comma between them",
            );
        }
        if regions.first() != Some(&home) {
            return bad(
                "FABRIC_REGIONS",
                list,
                "FABRIC_HOME_REGION must be its first one",
            );
        }
        let table = given("FABRIC_TABLE")?;
        let bucket = given("FABRIC_BUCKET")?;
        let seconds = given("FABRIC_WORKER_TIMEOUT_S")?;
        let worker_timeout = match seconds.parse::<u64>() {
            Ok(s @ 1..=900) => Duration::from_secs(s),
            _ => return bad("FABRIC_WORKER_TIMEOUT_S", seconds, "give 1 to 900 seconds"),
        };
        Ok(Config {
            stack,
            home,
            regions,
            table,
            bucket,
            worker_timeout,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [(&str, &str); 6] = [
        ("FABRIC_STACK", "fabric"),
        ("FABRIC_HOME_REGION", "us-east-1"),
        ("FABRIC_REGIONS", "us-east-1, us-east-2"),
        ("FABRIC_TABLE", "fabric"),
        ("FABRIC_BUCKET", "fabric-1-us-east-1"),
        ("FABRIC_WORKER_TIMEOUT_S", "900"),
    ];

    fn with(name: &str, value: &str) -> Result<Config, ConfigError> {
        Config::read(|asked| {
            let found = GOOD.iter().find(|(known, _)| *known == asked)?;
            Some(if asked == name { value } else { found.1 }.to_owned())
        })
    }

    #[test]
    fn a_whole_environment_is_read() {
        let config = with("", "").unwrap();
        assert_eq!(config.regions, ["us-east-1", "us-east-2"]);
        assert_eq!(config.worker_timeout, Duration::from_secs(900));
    }

    #[test]
    fn whatever_is_missing_is_named_with_who_sets_it() {
        for (name, _) in GOOD {
            let error = with(name, " ").unwrap_err();
            let line = error.to_string();
            assert!(
                line.contains(name) && line.contains("template.yaml"),
                "{line}"
            );
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (name, value) in [
            ("FABRIC_REGIONS", "us-east-1,,us-east-2"),
            ("FABRIC_REGIONS", "us-east-2,us-east-1"),
            ("FABRIC_WORKER_TIMEOUT_S", "0"),
            ("FABRIC_WORKER_TIMEOUT_S", "901"),
            ("FABRIC_WORKER_TIMEOUT_S", "a minute"),
        ] {
            let line = with(name, value).unwrap_err().to_string();
            assert!(line.contains(name) && line.contains(value), "{line}");
        }
    }
}
