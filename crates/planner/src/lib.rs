//! What must happen so that the world becomes what was declared.
