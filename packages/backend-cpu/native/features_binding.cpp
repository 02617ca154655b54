// features(): what this machine and this build can run. liveBytes(): the memory of all backends of the process.
#include "binding.h"
#include "memory.h"

namespace stet::cpu {
namespace {

napi_value features(Args& args) {
  napi_env env = args.env();
  napi_value list;
  check(env, napi_create_array(env, &list));
  const char* const names[] = {"scalar", "avx2", "avx512"};
  for (uint32_t i = 0; i < 3; i++) {
    const char* reason = "";
    const Kernels* kernels = kernelsFor(static_cast<Isa>(i), FastKernels::native, &reason);
    napi_value entry;
    check(env, napi_create_object(env, &entry));
    setProperty(env, entry, "name", text(env, names[i]));
    setProperty(env, entry, "features", text(env, kernels ? kernels->features : ""));
    setProperty(env, entry, "reason", text(env, kernels || !reason ? "" : reason));
    napi_value available;
    check(env, napi_get_boolean(env, kernels != nullptr, &available));
    setProperty(env, entry, "available", available);
    check(env, napi_set_element(env, list, i, entry));
  }
  napi_value result;
  check(env, napi_create_object(env, &result));
  setProperty(env, result, "isas", list);
  setProperty(env, result, "compiler", text(env, STET_COMPILER));
  return result;
}

napi_value liveBytesOf(Args& args) { return number(args.env(), static_cast<double>(liveBytes())); }

}  // namespace

void exportFeatures(napi_env env, napi_value exports) {
  exportFunction(env, exports, "features", callback<features>);
  exportFunction(env, exports, "liveBytes", callback<liveBytesOf>);
}

}  // namespace stet::cpu
