//! A pure model of what plan steps do to the world, to state laws about plans.
