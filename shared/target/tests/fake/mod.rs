//! A server that knows just enough of the protocol to let a driver in, or to
//! refuse it in every way that a test wants, and tells what it saw.

#![allow(dead_code)] // each test binary uses its part

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use fabric_target::{BoxFuture, Dial, Stream};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// How the server treats one connection.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// Lets it in and answers every query with an empty result.
    Welcome,
    /// A FATAL error with this SQLSTATE, message and hint.
    Refuse(&'static str, &'static str, Option<&'static str>),
    /// Never says anything.
    Silence,
    /// Closes at once.
    HangUp,
}

/// One connection as the server saw it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub direct: bool,
    pub sni: Option<String>,
    pub alpn: Option<String>,
    pub startup: Vec<(String, String)>,
    pub password: Option<String>,
    pub queries: usize,
    pub terminated: bool,
    pub ended: bool,
}

#[derive(Clone, Default)]
pub struct Fake {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    ask_password: bool,
    frozen: bool,
}

impl Fake {
    /// The first connections are treated so, later ones are welcome.
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Fake {
        Fake {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            ..Fake::default()
        }
    }

    /// Asks for a password in clear text.
    pub fn asking_password(mut self) -> Fake {
        self.ask_password = true;
        self
    }

    /// Answers no query.
    pub fn frozen(mut self) -> Fake {
        self.frozen = true;
        self
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn note(&self, index: usize, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().unwrap()[index]);
    }

    fn enter(&self, seen: Seen) -> usize {
        let mut all = self.seen.lock().unwrap();
        all.push(seen);
        all.len() - 1
    }

    /// Speaks to one client whose TLS, if any, is done.
    pub async fn session(self, mut stream: impl Stream, seen: Seen) {
        let index = self.enter(seen);
        let answer = self.answers.lock().unwrap().pop_front();
        let _ = self
            .talk(&mut stream, index, answer.unwrap_or(Answer::Welcome))
            .await;
        self.note(index, |seen| seen.ended = true);
    }

    async fn talk(
        &self,
        stream: &mut impl Stream,
        index: usize,
        answer: Answer,
    ) -> std::io::Result<()> {
        if matches!(answer, Answer::HangUp) {
            return Ok(());
        }
        let length = stream.read_i32().await?;
        let mut body = vec![0; length as usize - 4];
        stream.read_exact(&mut body).await?;
        let words: Vec<String> = body[4..]
            .split(|byte| *byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        let pairs = words.chunks_exact(2).filter(|pair| !pair[0].is_empty());
        let pairs = pairs
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect();
        self.note(index, |seen| seen.startup = pairs);
        if matches!(answer, Answer::Silence) {
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await?;
            return Ok(());
        }
        if self.ask_password {
            stream
                .write_all(&message(b'R', &3_i32.to_be_bytes()))
                .await?;
            let (_, body) = read_message(stream).await?;
            let text = String::from_utf8_lossy(&body[..body.len() - 1]).into_owned();
            self.note(index, |seen| seen.password = Some(text));
        }
        if let Answer::Refuse(sqlstate, text, hint) = answer {
            let mut body = Vec::new();
            let fields = [('S', "FATAL"), ('V', "FATAL"), ('C', sqlstate), ('M', text)];
            let hint = hint.map(|hint| ('H', hint));
            for (kind, value) in fields.into_iter().chain(hint) {
                body.push(kind as u8);
                body.extend_from_slice(value.as_bytes());
                body.push(0);
            }
            body.push(0);
            stream.write_all(&message(b'E', &body)).await?;
            return stream.shutdown().await;
        }
        let mut hello = message(b'R', &0_i32.to_be_bytes());
        hello.extend(message(b'K', &[0, 0, 0, 7, 0, 0, 0, 9]));
        hello.extend(message(b'Z', b"I"));
        stream.write_all(&hello).await?;
        loop {
            match read_message(stream).await? {
                (b'Q', _) => {
                    self.note(index, |seen| seen.queries += 1);
                    if !self.frozen {
                        let mut reply = message(b'C', b"SELECT 0\0");
                        reply.extend(message(b'Z', b"I"));
                        stream.write_all(&reply).await?;
                    }
                }
                (b'X', _) => {
                    self.note(index, |seen| seen.terminated = true);
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
    }

    /// Serves over TCP with TLS; `direct` says whether it can do without
    /// SSLRequest.
    pub async fn serve(self, certificate: &Identity, direct: bool) -> SocketAddr {
        let acceptor = certificate.acceptor();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(self.clone().accept(stream, acceptor.clone(), direct));
            }
        });
        address
    }

    async fn accept(self, mut stream: TcpStream, acceptor: TlsAcceptor, direct: bool) {
        let mut first = [0];
        if stream.peek(&mut first).await.is_err() {
            return;
        }
        let is_direct = first[0] == 0x16;
        if is_direct && !direct {
            return;
        }
        if !is_direct {
            let mut request = [0; 8];
            stream.read_exact(&mut request).await.unwrap();
            assert_eq!(request, [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);
            stream.write_all(b"S").await.unwrap();
        }
        // A client that does not like the certificate goes away here.
        let Ok(stream) = acceptor.accept(stream).await else {
            return;
        };
        let (_, tls) = stream.get_ref();
        let seen = Seen {
            direct: is_direct,
            sni: tls.server_name().map(str::to_owned),
            alpn: tls
                .alpn_protocol()
                .map(|name| String::from_utf8_lossy(name).into_owned()),
            ..Seen::default()
        };
        self.session(stream, seen).await;
    }
}

/// In-memory pipes, as the simulator hands them in.
impl Dial for Fake {
    fn dial(&self, _: usize) -> BoxFuture<'_, std::io::Result<Box<dyn Stream>>> {
        let (ours, theirs) = tokio::io::duplex(4096);
        tokio::spawn(self.clone().session(theirs, Seen::default()));
        Box::pin(async move { Ok(Box::new(ours) as Box<dyn Stream>) })
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend((body.len() as i32 + 4).to_be_bytes());
    out.extend(body);
    out
}

async fn read_message(stream: &mut impl Stream) -> std::io::Result<(u8, Vec<u8>)> {
    let kind = stream.read_u8().await?;
    let length = stream.read_i32().await?;
    let mut body = vec![0; length as usize - 4];
    stream.read_exact(&mut body).await?;
    Ok((kind, body))
}

/// A certificate with its key, and the authority that signed it.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// The authority's certificate, as a PEM file.
    pub ca: tempfile::NamedTempFile,
}

impl Identity {
    /// For these host names, by an authority of its own.
    pub fn new(names: &[&str]) -> Identity {
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let mut ca = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_certificate = ca.self_signed(&ca_key).unwrap();
        let issuer = rcgen::Issuer::new(ca, ca_key);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = rcgen::KeyPair::generate().unwrap();
        let leaf = rcgen::CertificateParams::new(names)
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), ca_certificate.pem()).unwrap();
        Identity {
            chain: vec![leaf.der().clone()],
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            ca: file,
        }
    }

    pub fn ca_path(&self) -> &str {
        self.ca.path().to_str().unwrap()
    }

    fn acceptor(&self) -> TlsAcceptor {
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(self.chain.clone(), self.key.clone_key())
                .unwrap();
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}
