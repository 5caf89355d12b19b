// A folder that appears complete or not at all.
#ifndef DPIPE_CORE_BASE_REPLACE_FOLDER_H_
#define DPIPE_CORE_BASE_REPLACE_FOLDER_H_

#include <string>

#include "core/base/status.h"

namespace dpipe {

// Gives the folder `staged` the name `target`, and removes what had that name before, if anything.
// Both are on one file system. Where the system can exchange names (Linux 3.15 on most file
// systems), whoever opens `target` sees the old folder or the new one, never neither or a mixture;
// elsewhere there is a moment without one. On error `target` is as it was.
absl::Status ReplaceFolder(const std::string& staged, const std::string& target);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_REPLACE_FOLDER_H_
