// What the stand-in of NVRTC loads when it compiles: nothing.
extern "C" __attribute__((visibility("default"))) int stand_in_builtins = 1;
