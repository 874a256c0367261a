//! A DSQL control plane of a few lines, for what a stand-in does not do: states
//! that take time, a pair that waits for its peer, refusals, answers that are
//! lost. It serves HTTP on a loopback port until the test ends.

#![allow(dead_code, missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What goes wrong, by region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The create is refused: too many clusters.
    Quota,
    /// The cluster is made and the answer lost, once.
    LostAnswer,
    /// The request is lost: nothing is made, nothing is answered, once.
    LostRequest,
    /// The cluster never becomes ACTIVE.
    Stuck,
}

#[derive(Debug, Clone)]
struct One {
    id: String,
    region: String,
    token: String,
    status: String,
    /// Looks at it until its next state.
    looks: u32,
    protected: bool,
    tags: Value,
    witness: Option<String>,
    peers: Vec<String>,
}

impl One {
    fn arn(&self) -> String {
        format!(
            "arn:aws:dsql:{}:111122223333:cluster/{}",
            self.region, self.id
        )
    }
}

#[derive(Debug, Default)]
pub struct State {
    clusters: Vec<One>,
    made: u32,
    pub faults: BTreeMap<String, Fault>,
    /// Every call, such as `us-east-1 POST /cluster`.
    pub calls: Vec<String>,
    /// What creates carried.
    pub creates: Vec<Value>,
}

#[derive(Debug, Clone)]
pub struct Plane {
    pub url: String,
    pub state: Arc<Mutex<State>>,
}

impl Plane {
    pub fn start() -> Plane {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.unwrap(), Arc::clone(&shared));
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Plane { url, state }
    }

    pub fn fault(&self, region: &str, fault: Fault) {
        let mut state = self.state.lock().unwrap();
        state.faults.insert(region.to_owned(), fault);
    }

    pub fn no_faults(&self) {
        self.state.lock().unwrap().faults.clear();
    }

    /// How many clusters there are, gone ones left out.
    pub fn count(&self) -> usize {
        self.state.lock().unwrap().clusters.len()
    }

    pub fn calls(&self, what: &str) -> usize {
        let state = self.state.lock().unwrap();
        state
            .calls
            .iter()
            .filter(|call| call.contains(what))
            .count()
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let mut words = line.split_whitespace();
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let (method, path) = (method.to_owned(), path.to_owned());
        let (mut length, mut region) = (0, String::new());
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).unwrap();
            let header = header.trim();
            if header.is_empty() {
                break;
            }
            let (name, value) = header.split_once(':').unwrap();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap(),
                // Credential=KEY/DATE/REGION/dsql/aws4_request
                "authorization" => region = value.split('/').nth(2).unwrap().to_owned(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let path = path.split('?').next().unwrap().trim_end_matches('/');
        let answer = state.lock().unwrap().answer(&region, &method, path, &body);
        let Some((code, error, body)) = answer else {
            return;
        };
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\n\
             x-amzn-errortype: {error}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
    }
}

type Answer = Option<(u16, &'static str, Value)>;

impl State {
    /// Takes a cluster's tags away.
    pub fn untag(&mut self, id: &str) {
        for one in self.clusters.iter_mut().filter(|one| one.id == id) {
            one.tags = json!({});
        }
    }

    fn answer(&mut self, region: &str, method: &str, path: &str, body: &Value) -> Answer {
        let call = format!("{region} {method} {path}");
        self.calls.push(call);
        let id = path.strip_prefix("/cluster/").map(str::to_owned);
        match (method, id) {
            ("POST", None) => self.create(region, body),
            ("GET", None) => {
                let list: Vec<Value> = self
                    .clusters
                    .iter()
                    .filter(|one| one.region == region)
                    .map(|one| json!({"identifier": one.id, "arn": one.arn()}))
                    .collect();
                Some((200, "", json!({"clusters": list})))
            }
            ("GET", Some(id)) => {
                self.look(region, &id);
                self.shown(region, &id)
            }
            ("POST", Some(id)) => {
                let Some(one) = self.find(region, &id) else {
                    return not_found(&id);
                };
                if let Some(on) = body["deletionProtectionEnabled"].as_bool() {
                    one.protected = on;
                }
                if let Some(peers) = body["multiRegionProperties"]["clusters"].as_array() {
                    one.peers = texts(peers);
                }
                self.shown(region, &id)
            }
            ("DELETE", Some(id)) => {
                let Some(one) = self.find(region, &id) else {
                    return not_found(&id);
                };
                if one.protected {
                    let body = json!({"message": "deletion protection", "reason": "deletionProtectionEnabled"});
                    return Some((400, "ValidationException", body));
                }
                one.status = if one.peers.is_empty() {
                    "DELETING".to_owned()
                } else {
                    "PENDING_DELETE".to_owned()
                };
                one.looks = 1;
                self.shown(region, &id)
            }
            _ => panic!("{method} {path}"),
        }
    }

    fn find(&mut self, region: &str, id: &str) -> Option<&mut One> {
        let here = |one: &&mut One| one.region == region && one.id == id;
        self.clusters.iter_mut().find(here)
    }

    fn create(&mut self, region: &str, body: &Value) -> Answer {
        let token = body["clientToken"].as_str().unwrap().to_owned();
        let fault = self.faults.get(region).copied();
        self.creates.push(body.clone());
        if fault == Some(Fault::Quota) {
            let body = json!({
                "message": "You have reached the cluster limit.", "resourceId": "-",
                "resourceType": "cluster", "serviceCode": "dsql", "quotaCode": "L-1",
            });
            return Some((402, "ServiceQuotaExceededException", body));
        }
        if fault == Some(Fault::LostRequest) {
            self.faults.remove(region);
            return None;
        }
        let known = self.clusters.iter().find(|one| one.token == token);
        let id = match known {
            Some(one) => one.id.clone(),
            None => {
                self.made += 1;
                let id = format!("{:0>26}", format!("c{}", self.made));
                let peering = &body["multiRegionProperties"];
                let witness = peering["witnessRegion"].as_str().map(str::to_owned);
                self.clusters.push(One {
                    id: id.clone(),
                    region: region.to_owned(),
                    token,
                    status: if witness.is_some() {
                        "PENDING_SETUP".to_owned()
                    } else {
                        "CREATING".to_owned()
                    },
                    looks: 1,
                    protected: body["deletionProtectionEnabled"].as_bool().unwrap(),
                    tags: body["tags"].clone(),
                    witness,
                    peers: peering["clusters"]
                        .as_array()
                        .map_or(Vec::new(), |a| texts(a)),
                });
                id
            }
        };
        if fault == Some(Fault::LostAnswer) {
            self.faults.remove(region);
            return None;
        }
        self.shown(region, &id)
    }

    /// Time passes by looking.
    fn look(&mut self, region: &str, id: &str) {
        let stuck = self.faults.get(region) == Some(&Fault::Stuck);
        let all = self.clusters.clone();
        let Some(one) = self.find(region, id) else {
            return;
        };
        if one.looks > 0 {
            one.looks -= 1;
            return;
        }
        let peer = |arn: &String| all.iter().find(|other| other.arn() == *arn);
        match one.status.as_str() {
            "PENDING_SETUP" => {
                let mutual = !one.peers.is_empty()
                    && one
                        .peers
                        .iter()
                        .all(|arn| peer(arn).is_some_and(|other| other.peers.contains(&one.arn())));
                if mutual {
                    one.status = "CREATING".to_owned();
                }
            }
            "CREATING" if !stuck => one.status = "ACTIVE".to_owned(),
            "PENDING_DELETE" => {
                let leaving = |arn: &String| {
                    peer(arn).is_none_or(|other| {
                        ["PENDING_DELETE", "DELETING"].contains(&other.status.as_str())
                    })
                };
                if one.peers.iter().all(leaving) {
                    one.status = "DELETING".to_owned();
                }
            }
            "DELETING" => {
                let id = id.to_owned();
                self.clusters.retain(|one| one.id != id);
            }
            _ => {}
        }
    }

    fn shown(&mut self, region: &str, id: &str) -> Answer {
        let Some(one) = self.find(region, id) else {
            return not_found(id);
        };
        let mut body = json!({
            "identifier": one.id,
            "arn": one.arn(),
            "status": one.status,
            "creationTime": 1_790_000_000.0,
            "deletionProtectionEnabled": one.protected,
            "tags": one.tags,
            "endpoint": format!("{}.dsql.{region}.on.aws", one.id),
        });
        if let Some(witness) = &one.witness {
            let mut all = vec![one.arn()];
            all.extend(one.peers.clone());
            body["multiRegionProperties"] = json!({"witnessRegion": witness, "clusters": all});
        }
        Some((200, "", body))
    }
}

fn texts(values: &[Value]) -> Vec<String> {
    let texts = values.iter().map(|value| value.as_str().unwrap());
    texts.map(str::to_owned).collect()
}

fn not_found(id: &str) -> Answer {
    let body = json!({"message": format!("Cluster {id} not found"), "resourceId": id, "resourceType": "cluster"});
    Some((404, "ResourceNotFoundException", body))
}
