// A stand-in for NVRTC: the code it makes names the type of element. As the real one, it loads a
// library of its own by its bare name when it compiles.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#define API extern "C" __attribute__((visibility("default"))) int

struct Program {
  std::string code, log;
};

API nvrtcVersion(int *major, int *minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
API nvrtcCreateProgram(Program **program, const char *, const char *, int, const char *const *,
                       const char *const *) {
  *program = new Program;
  return 0;
}
API nvrtcDestroyProgram(Program **program) {
  delete *program;
  return 0;
}
API nvrtcCompileProgram(Program *program, int count, const char *const *options) {
  bool is_bf16 = false;
  std::string all = "compile";
  for (int i = 0; i < count; i++) {
    is_bf16 |= !strcmp(options[i], "-DELEMENT_BF16");
    all += std::string(" ") + options[i];
  }
  if (const char *path = getenv("STAND_IN_LOG"))
    if (FILE *file = fopen(path, "a")) {
      fputs((all + "\n").c_str(), file);
      fclose(file);
    }
  if (!dlopen("libnvrtc-builtins.so.13.0", RTLD_NOW)) {
    program->log = "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.";
    return 6;
  }
  program->code = std::string("\x7f" "ELF") + (is_bf16 ? "b" : "f");
  return 0;
}
API nvrtcGetProgramLogSize(Program *program, size_t *size) {
  *size = program->log.size() + 1;
  return 0;
}
API nvrtcGetProgramLog(Program *program, char *text) {
  memcpy(text, program->log.c_str(), program->log.size() + 1);
  return 0;
}
API nvrtcGetCUBINSize(Program *program, size_t *size) {
  *size = program->code.size();
  return 0;
}
API nvrtcGetCUBIN(Program *program, char *code) {
  memcpy(code, program->code.data(), program->code.size());
  return 0;
}
