mod exhaustive;
mod kinds;
mod meetings;
mod paper;
