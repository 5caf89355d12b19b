// Paths for programs that are started by `bazel run`, which changes the current folder, or by hand.
#ifndef DPIPE_CORE_BASE_FILES_RUN_PATHS_H_
#define DPIPE_CORE_BASE_FILES_RUN_PATHS_H_

#include <string>

namespace dpipe {

// Resolves a path that the user gave. Relative paths start at the folder in which the command was
// typed. A leading ~ is the home folder, and ~NAME another user's, because shells expand neither in
// --flag=~/x and nothing expands them in files. As in shells, ~NAME stays unchanged if there is no
// such user. Every flag and every configuration field with a path goes through this function or
// OutputPath.
std::string UserPath(const std::string& path);

// The same for files that the program creates: relative paths start at the workspace.
std::string OutputPath(const std::string& path);

// Returns the path of a file that is part of the program, such as a model's configuration. Looks in
// the current folder, as under `bazel run`, then in the runfiles that Bazel puts beside the
// program, so that the program can be started in any folder. Returns `path` unchanged if it is in
// neither.
std::string ProgramDataPath(const std::string& path);

bool IsFolder(const std::string& path);

// True if `path` is `folder` or inside it. Resolves symlinks, "..", "." and names that do not exist
// yet.
bool IsWithin(const std::string& path, const std::string& folder);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_FILES_RUN_PATHS_H_
