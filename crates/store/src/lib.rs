//! What must outlive a run: secrets, lock, journal.
