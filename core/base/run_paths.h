// Where files are for programs that `bazel run` starts, in another folder than the user's, and for
// those that are started by hand.
#ifndef DPIPE_CORE_BASE_RUN_PATHS_H_
#define DPIPE_CORE_BASE_RUN_PATHS_H_

#include <string>

namespace dpipe {

// A path as the user gave it: relative ones count from where the command was typed.
std::string UserPath(const std::string& path);

// A path for what the program makes: relative ones count from the workspace.
std::string OutputPath(const std::string& path);

// A path to what the program comes with (models' configurations, say): below the current folder,
// as with `bazel run`, or else where Bazel puts such files beside the program, so that it can be
// started in any folder. Where it is in neither, relative to the current folder.
std::string ProgramDataPath(const std::string& path);

bool IsFolder(const std::string& path);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_RUN_PATHS_H_
