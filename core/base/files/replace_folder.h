// A folder that appears complete or not at all.
#ifndef DPIPE_CORE_BASE_FILES_REPLACE_FOLDER_H_
#define DPIPE_CORE_BASE_FILES_REPLACE_FOLDER_H_

#include <string>

#include "core/base/status.h"

namespace dpipe {

// Renames the folder `staged` to `target` and removes the previous `target`, if any. Both must be
// on one file system. If the system can exchange names (Linux 3.15 on most file systems), a reader
// of `target` sees the old folder or the new one, never neither or a mixture. Otherwise `target` is
// missing for a moment. On error, `target` is unchanged.
absl::Status ReplaceFolder(const std::string& staged, const std::string& target);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_FILES_REPLACE_FOLDER_H_
