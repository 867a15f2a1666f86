//! A bounded queue: adding an item never waits, and the oldest items are dropped first.

use std::collections::VecDeque;

/// Keeps the last items up to a limit, and counts those that it dropped.
#[derive(Debug)]
pub(crate) struct BoundedQueue<T> {
    items: VecDeque<T>,
    most: usize,
    lost: u64,
}

impl<T> BoundedQueue<T> {
    /// Creates a queue of at most `most` items. It allocates nothing in advance.
    pub(crate) fn new(most: usize) -> Self {
        Self { items: VecDeque::new(), most, lost: 0 }
    }

    /// Adds an item at the end and returns the one that is dropped for it.
    pub(crate) fn push(&mut self, item: T) -> Option<T> {
        self.items.push_back(item);
        if self.items.len() <= self.most {
            return None;
        }
        self.lost += 1;
        self.items.pop_front()
    }

    /// Takes the oldest item.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// Takes all items, the oldest first. The count of dropped ones stays.
    pub(crate) fn take(&mut self) -> VecDeque<T> {
        std::mem::take(&mut self.items)
    }

    /// Returns the number of dropped items, except those that [`take_lost`](Self::take_lost) has
    /// returned.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the number of dropped items since the last call.
    pub(crate) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Iterates from the oldest item.
    pub(crate) fn iter(&self) -> std::collections::vec_deque::Iter<'_, T> {
        self.items.iter()
    }

    /// Iterates from the oldest item.
    pub(crate) fn iter_mut(&mut self) -> std::collections::vec_deque::IterMut<'_, T> {
        self.items.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room_and_are_counted_once() {
        let mut queue = BoundedQueue::new(2);
        assert_eq!([queue.push(1), queue.push(2)], [None, None]);
        assert_eq!(queue.take_lost(), 0);
        assert_eq!([queue.push(3), queue.push(4)], [Some(1), Some(2)]);
        assert_eq!((queue.lost(), queue.take_lost(), queue.take_lost()), (2, 2, 0));
        assert_eq!(queue.iter().copied().collect::<Vec<_>>(), [3, 4]);
        assert_eq!(queue.pop(), Some(3));
        assert_eq!(queue.push(5), None, "there is room again");
    }

    #[test]
    fn what_is_taken_makes_room_and_is_not_lost() {
        let mut queue = BoundedQueue::new(2);
        assert_eq!([queue.push(0), queue.push(1), queue.push(2)], [None, None, Some(0)]);
        assert_eq!(queue.take(), [1, 2]);
        assert!(queue.is_empty() && queue.pop().is_none());
        assert_eq!(queue.push(3), None);
        assert_eq!(queue.take_lost(), 1);
    }

    #[test]
    fn one_that_holds_nothing_loses_everything() {
        let mut queue = BoundedQueue::new(0);
        assert_eq!([queue.push('a'), queue.push('b')], [Some('a'), Some('b')]);
        assert_eq!((queue.pop(), queue.len(), queue.lost()), (None, 0, 2));
    }
}
