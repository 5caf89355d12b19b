// Tar files in memory, for tests.
#ifndef DPIPE_DATA_TESTING_TAR_FOR_TEST_H_
#define DPIPE_DATA_TESTING_TAR_FOR_TEST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dpipe {

// Returns a ustar header of 512 bytes with a correct checksum. The name has at most 100 bytes.
std::string TarHeader(const std::string& name, int64_t size, char type = '0');

// Corrects the checksum of the header at `offset`.
void FixTarChecksum(std::string* tar, size_t offset);

// Returns a header, the content, and zeros up to a multiple of 512 bytes.
std::string TarEntry(const std::string& name, const std::string& content, char type = '0');

// Returns one entry after another, followed by two blocks of zeros.
std::string MakeTar(const std::vector<std::pair<std::string, std::string>>& members);

}  // namespace dpipe

#endif  // DPIPE_DATA_TESTING_TAR_FOR_TEST_H_
