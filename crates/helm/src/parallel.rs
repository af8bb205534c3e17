//! Work that is the same in any order, shared with a second thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A template may nest as deep as its parser allows.
const STACK: usize = 64 << 20;

/// Maps items in order, this thread and another taking them by turns, each with a worker made from a state of its own.
///
/// Where no thread can be started this one does everything. A panic in either is a panic here.
pub(crate) fn map<T, S, R, W>(items: &[T], states: [S; 2], worker: impl Fn(S) -> W + Sync) -> Vec<R>
where
    T: Sync,
    S: Send,
    R: Send,
    W: FnMut(&T) -> R,
{
    let next = AtomicUsize::new(0);
    let run = |state: S| {
        let mut work = worker(state);
        let mut done = Vec::new();
        while let Some((index, item)) = Some(next.fetch_add(1, Ordering::Relaxed))
            .and_then(|index| items.get(index).map(|item| (index, item)))
        {
            done.push((index, work(item)));
        }
        done
    };
    let [mine, other] = states;
    let mut results = thread::scope(|scope| {
        let helper = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || run(other)).ok();
        let mut results = run(mine);
        match helper.map(thread::ScopedJoinHandle::join) {
            Some(Ok(more)) => results.extend(more),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => {}
        }
        results
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The results of two tasks, of which the second runs on another thread. A panic in either is a panic here.
pub(crate) fn both<A, B: Send>(first: impl FnOnce() -> A, second: impl Fn() -> B + Sync) -> (A, B) {
    thread::scope(|scope| {
        let helper = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, &second);
        let first = first();
        match helper.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => (first, result),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // No thread could be started.
            Err(_) => (first, second()),
        }
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        let doubled = super::map(&items, [(), ()], |()| |item: &usize| item * 2);
        assert!(doubled.iter().enumerate().all(|(index, result)| *result == index * 2));
        assert_eq!(doubled.len(), items.len());
    }

    #[test]
    fn a_panic_comes_out() {
        let attempt = std::panic::catch_unwind(|| {
            super::map(&[1, 2, 3], [(), ()], |()| |item: &i32| assert_ne!(*item, 2))
        });
        assert!(attempt.is_err());
    }
}
