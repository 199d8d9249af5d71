"""Stories on a running lab: each sets up, does something, and looks at the world from outside the daemon."""
