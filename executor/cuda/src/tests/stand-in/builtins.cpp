// An empty library, which the stand-in of NVRTC loads when it compiles.
extern "C" __attribute__((visibility("default"))) int stand_in_builtins = 1;
