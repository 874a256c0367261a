//! Whether a connection is encrypted, settled before its first packet.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt, Chain, Join, ReadHalf, WriteHalf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::message::{Opening, Packet, packet};
use crate::pipe::Pipe;
use crate::tls::ALPN;

/// First byte of a TLS handshake; as the first byte of a packet's length it
/// would be far too long, so the two can't be mistaken for each other.
const TLS_HANDSHAKE: u8 = 0x16;

/// A pipe from which some bytes were read already.
type Rewound = Join<Chain<io::Cursor<Vec<u8>>, ReadHalf<Pipe>>, WriteHalf<Pipe>>;

/// How the client goes on.
pub(crate) enum Way {
    Plain {
        pipe: Pipe,
        /// What was read and is the session's.
        input: Vec<u8>,
    },
    Sealed {
        stream: Box<TlsStream<Rewound>>,
        /// The host that the client asked for (SNI).
        host: Option<String>,
    },
}

/// Answers requests for encryption until the client sends something else.
pub(crate) async fn negotiate(mut pipe: Pipe, tls: Option<&TlsAcceptor>) -> io::Result<Way> {
    let mut input = Vec::new();
    loop {
        let wants_tls = match (packet(&input), tls) {
            _ if input.is_empty() => None,
            (_, Some(tls)) if input[0] == TLS_HANDSHAKE => {
                let way = seal(tls, input, pipe).await?;
                return match &way {
                    Way::Sealed { stream, .. } if alpn(stream) != Some(ALPN) => {
                        Err(io::ErrorKind::InvalidData.into())
                    }
                    _ => Ok(way),
                };
            }
            (Ok(None), _) => None,
            (
                Ok(Some(Packet {
                    opening: Ok(Opening::SslRequest),
                    length,
                })),
                tls,
            ) => Some((tls, length)),
            (
                Ok(Some(Packet {
                    opening: Ok(Opening::GssEncRequest),
                    length,
                })),
                _,
            ) => Some((None, length)),
            // The session says what is wrong with anything else.
            _ => return Ok(Way::Plain { pipe, input }),
        };
        match wants_tls {
            None => {
                if pipe.read_buf(&mut input).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Some((Some(tls), length)) => {
                if input.len() > length {
                    // Sent before TLS and meant to be read as if it came after:
                    // somebody in between.
                    return Err(io::ErrorKind::InvalidData.into());
                }
                pipe.write_all(b"S").await?;
                return seal(tls, Vec::new(), pipe).await;
            }
            Some((None, length)) => {
                input.drain(..length);
                pipe.write_all(b"N").await?;
            }
        }
    }
}

async fn seal(tls: &TlsAcceptor, read: Vec<u8>, pipe: Pipe) -> io::Result<Way> {
    let (from_client, to_client) = tokio::io::split(pipe);
    let rewound = tokio::io::join(io::Cursor::new(read).chain(from_client), to_client);
    let stream = Box::new(tls.accept(rewound).await?);
    let host = stream.get_ref().1.server_name().map(str::to_owned);
    Ok(Way::Sealed { stream, host })
}

fn alpn(stream: &TlsStream<Rewound>) -> Option<&[u8]> {
    stream.get_ref().1.alpn_protocol()
}
