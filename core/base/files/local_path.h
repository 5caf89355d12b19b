// Detects remote models and data sets that were given as local paths.
#ifndef DPIPE_CORE_BASE_FILES_LOCAL_PATH_H_
#define DPIPE_CORE_BASE_FILES_LOCAL_PATH_H_

#include <string>

#include "core/base/status.h"

namespace dpipe {

enum class HubKind { kModel, kDataset };

// Returns NotFound if `given`, the value of --flag, is remote: a URL, a command ("pipe:curl ..."),
// or a name on the Hugging Face hub ("user/name") when neither that path nor a folder "user"
// exists. The message names the flag, its value and the command that downloads it; nothing is
// downloaded here. Returns OK for all other values, whether or not they exist.
absl::Status CheckIsLocal(const std::string& flag, const std::string& given, HubKind kind);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_FILES_LOCAL_PATH_H_
