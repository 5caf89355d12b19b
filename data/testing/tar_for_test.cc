#include "data/testing/tar_for_test.h"

#include <cstdio>

#include "absl/strings/str_format.h"
#include "core/base/check.h"

namespace dpipe {

void FixTarChecksum(std::string* tar, size_t offset) {
  tar->replace(offset + 148, 8, 8, ' ');
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<uint8_t>((*tar)[offset + i]);
  tar->replace(offset + 148, 7, absl::StrFormat("%06o", sum) + '\0');
}

std::string TarHeader(const std::string& name, int64_t size, char type) {
  DPIPE_CHECK(name.size() <= 100) << name;
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 7, "0000644");
  header.replace(124, 11, absl::StrFormat("%011o", size));
  header[156] = type;
  header.replace(257, 8, std::string("ustar\00000", 8));
  FixTarChecksum(&header, 0);
  return header;
}

std::string TarEntry(const std::string& name, const std::string& content, char type) {
  const int64_t size = static_cast<int64_t>(content.size());
  return TarHeader(name, size, type) + content + std::string((512 - size % 512) % 512, '\0');
}

std::string MakeTar(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string tar;
  for (const auto& [name, content] : members) tar += TarEntry(name, content);
  return tar + std::string(1024, '\0');
}

}  // namespace dpipe
