#include "core/base/host/host_name.h"

#include <unistd.h>

namespace dpipe {

std::string HostName() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) return "";
  return name;
}

}  // namespace dpipe
