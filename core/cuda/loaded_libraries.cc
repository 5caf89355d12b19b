#include "core/cuda/loaded_libraries.h"

#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace dpipe {

std::vector<std::string> LoadedCudaLibraries() {
  std::ifstream file("/proc/self/maps");  // its size is unknown until it is read
  std::ostringstream maps;
  maps << file.rdbuf();
  return internal::CudaLibrariesOf(maps.str());
}

namespace internal {

std::vector<std::string> CudaLibrariesOf(absl::string_view maps) {
  std::set<std::string> paths;
  for (const absl::string_view line : absl::StrSplit(maps, '\n')) {
    // Example: "7f3c00000000-7f3c00021000 r-xp 00000000 08:01 1234   /usr/lib/libcuda.so.1". The
    // path is last, and the only field with slashes.
    const size_t begin = line.find('/');
    if (begin == absl::string_view::npos) continue;
    const absl::string_view path = line.substr(begin);
    const absl::string_view file = path.substr(path.rfind('/') + 1);
    for (const absl::string_view name :
         {"libcuda.", "libcublas", "libcudnn", "libnccl", "libnvrtc", "libnvidia"}) {
      if (absl::StartsWith(file, name)) paths.emplace(path);
    }
  }
  return {paths.begin(), paths.end()};
}

}  // namespace internal
}  // namespace dpipe
