// Where files are for programs that `bazel run` starts, in another folder than the user's, and for
// those that are started by hand.
#ifndef DPIPE_CORE_BASE_RUN_PATHS_H_
#define DPIPE_CORE_BASE_RUN_PATHS_H_

#include <string>

namespace dpipe {

// Returns the path that the user gave, as the program opens it. Relative paths count from where the
// command was typed. A leading ~ is the home folder and ~NAME that of another user, because shells
// expand neither in --flag=~/x, and nobody does in a file; ~NAME stays as it is if there is no such
// user, as in shells. Every flag, and every field of a file, that is a path goes through this or
// OutputPath.
std::string UserPath(const std::string& path);

// The same for what the program makes: relative paths count from the workspace.
std::string OutputPath(const std::string& path);

// A path to what the program comes with (models' configurations, say): below the current folder,
// as with `bazel run`, or else where Bazel puts such files beside the program, so that it can be
// started in any folder. Where it is in neither, relative to the current folder.
std::string ProgramDataPath(const std::string& path);

bool IsFolder(const std::string& path);

// True if `path` is `folder` or lies inside it, by whatever names: symlinks, "..", "." and names
// that are not there yet are understood.
bool IsWithin(const std::string& path, const std::string& folder);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_RUN_PATHS_H_
