#include "core/train/signal_files.h"

#include <unistd.h>

namespace dpipe {

bool TakeSignalFile(const std::string& folder, const char* name) {
  return ::unlink((folder + "/" + name).c_str()) == 0;
}

}  // namespace dpipe
