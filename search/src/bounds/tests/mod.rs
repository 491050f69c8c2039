mod exhaustive;
mod meetings;
mod paper;
