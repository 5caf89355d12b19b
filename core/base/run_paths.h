// Where files lie for a program that `bazel run` starts in a folder of its own.
#ifndef DPIPE_CORE_BASE_RUN_PATHS_H_
#define DPIPE_CORE_BASE_RUN_PATHS_H_

#include <string>

namespace dpipe {

// A path as the user gave it: relative ones count from where the command was typed.
std::string UserPath(const std::string& path);

// A path for what the program makes: relative ones count from the workspace.
std::string OutputPath(const std::string& path);

bool IsFolder(const std::string& path);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_RUN_PATHS_H_
