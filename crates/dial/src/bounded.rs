//! Bodies of answers that end where a peer says too much: by their size, and by how much they become when they are read.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Body, Bytes, Frame, SizeHint};

/// How much a peer may say in one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes.
    pub bytes: u64,
    /// JSON objects. Two bytes of an empty one can become hundreds in memory.
    pub objects: u64,
    /// JSON values of any kind, about.
    pub values: u64,
}

impl Bounds {
    /// Enough for a list of fifty thousand guests.
    pub const LIST: Self = Self { bytes: 32 << 20, objects: 200_000, values: 2_000_000 };
    /// Enough for all options of a guest.
    pub const ONE: Self = Self { bytes: 4 << 20, objects: 10_000, values: 50_000 };
}

/// A body that fails once it is past its bounds. What follows is not read.
#[derive(Debug)]
pub struct Bounded<B> {
    inner: B,
    left: Bounds,
    whole: Bounds,
}

impl<B> Bounded<B> {
    /// A body within bounds.
    pub fn new(inner: B, bounds: Bounds) -> Self {
        Self { inner, left: bounds, whole: bounds }
    }

    fn count(&mut self, data: &[u8]) -> io::Result<()> {
        let (mut objects, mut values) = (0, 0);
        for byte in data {
            objects += u64::from(*byte == b'{');
            values += u64::from(matches!(byte, b'{' | b'[' | b','));
        }
        let Bounds { bytes: all_bytes, objects: all_objects, values: all_values } = self.whole;
        for (left, taken, most, unit) in [
            (&mut self.left.bytes, data.len() as u64, all_bytes >> 20, "MiB"),
            (&mut self.left.objects, objects, all_objects, "objects"),
            (&mut self.left.values, values, all_values, "values"),
        ] {
            *left = left.checked_sub(taken).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("the answer has more than {most} {unit}"))
            })?;
        }
        Ok(())
    }
}

impl<B> Body for Bounded<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => return Poll::Pending,
        };
        if let Some(data) = frame.data_ref()
            && let Err(error) = self.count(data)
        {
            return Poll::Ready(Some(Err(error.into())));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body of the same piece, again and again.
    struct Again(&'static str, usize);

    impl Body for Again {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
            let Some(left) = self.1.checked_sub(1) else { return Poll::Ready(None) };
            self.1 = left;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(self.0.as_bytes())))))
        }
    }

    async fn read(body: Again) -> Result<u64, String> {
        let mut body = Bounded::new(body, Bounds { bytes: 1 << 20, objects: 1000, values: 5000 });
        let mut size = 0;
        while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            size += frame.map_err(|error| error.to_string())?.data_ref().map_or(0, Bytes::len) as u64;
        }
        Ok(size)
    }

    #[tokio::test]
    async fn an_answer_ends_where_it_says_too_much() {
        assert_eq!(read(Again("{\"a\": 1},", 1000)).await, Ok(9000));
        assert_eq!(read(Again("{},", 1001)).await.unwrap_err(), "the answer has more than 1000 objects");
        assert_eq!(read(Again("0,", 5001)).await.unwrap_err(), "the answer has more than 5000 values");
        assert_eq!(
            read(Again("aaaaaaaaaaaaaaaa", 65_537)).await.unwrap_err(),
            "the answer has more than 1 MiB"
        );
    }
}
