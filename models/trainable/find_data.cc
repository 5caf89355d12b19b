#include "models/trainable/find_data.h"

#include "models/folder/find_folders.h"
#include "models/trainable/load.h"

namespace dpipe::models {

absl::StatusOr<std::string> FindDataFor(const std::string& model_folder, const std::string& kind,
                                        const std::string& data,
                                        const std::function<void(const std::string&)>& report) {
  if (!data.empty()) return FindDataFolder(data, report);
  DPIPE_ASSIGN_OR_RETURN(const ModelKind* found, FindModelKind(model_folder, kind));
  return FindDataFolder(data, report, found->wants_conditions);
}

}  // namespace dpipe::models
