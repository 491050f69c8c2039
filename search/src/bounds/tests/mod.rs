mod exhaustive;
mod paper;
