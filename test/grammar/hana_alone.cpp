#include <boost/hana.hpp>
