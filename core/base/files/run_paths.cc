#include "core/base/files/run_paths.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

namespace dpipe {
namespace {

namespace fs = std::filesystem;

constexpr char kWorkspace[] = "open_diffusion_pipe";  // the name in WORKSPACE

// Returns the home folder of `user`, or of the current user if `user` is empty, or "" if unknown.
std::string HomeOf(const std::string& user) {
  const char* home = std::getenv("HOME");
  if (user.empty() && home != nullptr && *home != '\0') return home;
  constexpr size_t kMaxEntryBytes = 1 << 16;
  std::vector<char> buffer(kMaxEntryBytes);
  struct passwd entry;
  struct passwd* found = nullptr;
  const int error = user.empty()
                        ? ::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found)
                        : ::getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found);
  return error == 0 && found != nullptr ? found->pw_dir : "";
}

std::string WithHome(const std::string& path) {
  if (path.empty() || path[0] != '~') return path;
  const size_t end = std::min(path.find('/'), path.size());
  const std::string home = HomeOf(path.substr(1, end - 1));
  return home.empty() ? path : home + path.substr(end);
}

// Bazel stores the user's folder in the environment. Without Bazel it is the current folder.
std::string Below(const char* variable, const std::string& given) {
  const std::string path = WithHome(given);
  const char* base = std::getenv(variable);
  if (base == nullptr || fs::path(path).is_absolute()) return path;
  return (fs::path(base) / path).lexically_normal().string();
}

}  // namespace

std::string UserPath(const std::string& path) { return Below("BUILD_WORKING_DIRECTORY", path); }

std::string OutputPath(const std::string& path) { return Below("BUILD_WORKSPACE_DIRECTORY", path); }

std::string ProgramDataPath(const std::string& path) {
  std::error_code error;
  if (fs::path(path).is_absolute() || fs::exists(path, error)) return path;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = program.string() + ".runfiles/" + kWorkspace + "/" + path;
  return !error && fs::exists(beside, error) ? beside.string() : path;
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool IsWithin(const std::string& path, const std::string& folder) {
  std::error_code error;
  // The existing part of the path with its symlinks resolved, and the rest by name.
  fs::path at = fs::weakly_canonical(fs::absolute(path, error), error);
  const fs::path outer = fs::weakly_canonical(fs::absolute(folder, error), error);
  if (at.empty() || outer.empty()) return false;
  while (true) {
    // Also compared by identity, because a folder may be mounted in two places.
    if (at == outer || fs::equivalent(at, outer, error)) return true;
    if (at == at.parent_path()) return false;
    at = at.parent_path();
  }
}

}  // namespace dpipe
