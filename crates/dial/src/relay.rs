//! Passes bytes between a caller and a service, as a network does: what one side said before it hung up reaches the other.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

/// Passes bytes on both ways until both are at their end, or the service is cut off.
///
/// A service that refuses a caller says why and hangs up, while the caller may still be speaking. That those words go nowhere
/// does not end what is on its way back.
pub async fn relay<C, S>(caller: C, service: S) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite,
    S: AsyncRead + AsyncWrite,
{
    let (mut from_caller, mut to_caller) = tokio::io::split(caller);
    let (mut from_service, mut to_service) = tokio::io::split(service);
    let inwards = async {
        let heard = tokio::io::copy(&mut from_caller, &mut to_service).await;
        let _ = to_service.shutdown().await;
        heard
    };
    let outwards = async {
        tokio::io::copy(&mut from_service, &mut to_caller).await?;
        to_caller.shutdown().await
    };
    tokio::pin!(inwards, outwards);
    tokio::select! {
        said = &mut outwards => {
            said?;
            inwards.await?;
        }
        heard = &mut inwards => {
            outwards.await?;
            heard?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn last_words_reach_a_caller_who_is_still_speaking() {
        // The caller's side takes in two bytes at a time, so that the last words are still on their way when a write fails.
        let ((mut caller, near), (far, mut service)) = (duplex(2), duplex(64));
        let relayed = tokio::spawn(relay(near, far));
        caller.write_all(b"hi").await.unwrap();
        let mut word = [0; 2];
        service.read_exact(&mut word).await.unwrap();
        service.write_all(b"go away").await.unwrap();
        drop(service);
        caller.write_all(b"but").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut heard = String::new();
        caller.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "go away");
        relayed.await.unwrap().unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_hears_that_its_caller_is_done_and_may_still_answer() {
        let ((mut caller, near), (far, mut service)) = (duplex(64), duplex(64));
        let relayed = tokio::spawn(relay(near, far));
        caller.write_all(b"all of it").await.unwrap();
        caller.shutdown().await.unwrap();
        let mut heard = String::new();
        service.read_to_string(&mut heard).await.unwrap();
        service.write_all(heard.as_bytes()).await.unwrap();
        drop(service);
        heard.clear();
        caller.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "all of it");
        relayed.await.unwrap().unwrap();
    }
}
