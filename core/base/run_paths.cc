#include "core/base/run_paths.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace dpipe {
namespace {

constexpr char kWorkspace[] = "open_diffusion_pipe";  // as WORKSPACE calls it

// Bazel says in the environment where the user was; without Bazel that is the current folder.
std::string Below(const char* variable, const std::string& path) {
  const char* base = std::getenv(variable);
  if (base == nullptr || std::filesystem::path(path).is_absolute()) return path;
  return (std::filesystem::path(base) / path).lexically_normal().string();
}

}  // namespace

std::string UserPath(const std::string& path) { return Below("BUILD_WORKING_DIRECTORY", path); }

std::string OutputPath(const std::string& path) { return Below("BUILD_WORKSPACE_DIRECTORY", path); }

std::string ProgramDataPath(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::path(path).is_absolute() || fs::exists(path, error)) return path;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = program.string() + ".runfiles/" + kWorkspace + "/" + path;
  return !error && fs::exists(beside, error) ? beside.string() : path;
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

}  // namespace dpipe
