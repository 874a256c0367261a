//! A socket to a host, or to a path on this machine.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use clock::Clock;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, lookup_host};

/// Idle connections wait at a barrier for minutes; NAT gateways and network
/// load balancers forget a silent one after 350 s.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// A connected socket.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects over TCP: to the first of the host's addresses that answers.
    pub(crate) async fn tcp(
        host: &str,
        port: u16,
        clock: Clock,
        limit: Duration,
    ) -> io::Result<Socket> {
        let addresses: Vec<SocketAddr> = lookup_host((host, port))
            .await
            .map_err(|error| {
                // "Unreachable", because a resolver that is out of order is
                // worth a second try and cannot be told from a wrong name.
                io::Error::new(
                    io::ErrorKind::HostUnreachable,
                    format!("the host name cannot be resolved ({error})"),
                )
            })?
            .collect();
        let mut last = io::Error::new(io::ErrorKind::HostUnreachable, "the host has no address");
        // A silent address must not eat the time of the next one.
        let share = limit / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
        for address in addresses {
            match clock.timeout(share, TcpStream::connect(address)).await {
                Some(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    SockRef::from(&stream)
                        .set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
                    return Ok(Socket::Tcp(stream));
                }
                Some(Err(error)) => last = error,
                None => last = io::Error::new(io::ErrorKind::TimedOut, "no answer"),
            }
        }
        Err(last)
    }

    /// Connects to a server's Unix socket in a directory.
    pub(crate) async fn unix(directory: &str, port: u16) -> io::Result<Socket> {
        let stream = UnixStream::connect(format!("{directory}/.s.PGSQL.{port}")).await?;
        Ok(Socket::Unix(stream))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
