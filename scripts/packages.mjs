// The Debian packages that tests use, each with a file that it contains. `ensurePackages` in setup.mjs takes them.

/** The packages that the gate needs. */
export const gatePackages = {
  curl: "/usr/bin/curl",
  "default-jre-headless": "/usr/bin/java",
  "etcd-client": "/usr/bin/etcdctl",
  "etcd-server": "/usr/bin/etcd",
  faketime: "/usr/lib/*/faketime/libfaketimeMT.so.1",
  gcc: "/usr/bin/gcc",
  "libc6-dev": "/usr/include/stdio.h",
  "libhsqldb-java": "/usr/share/java/hsqldb.jar",
  "libzookeeper-java": "/usr/share/java/zookeeper.jar",
  "mariadb-client-core": "/usr/bin/mariadb",
  "mariadb-server-core": "/usr/sbin/mariadbd",
  openssl: "/usr/bin/openssl",
  postgresql: "/usr/lib/postgresql/*/bin/initdb",
  python3: "/usr/bin/python3",
  "redis-server": "/usr/bin/redis-server",
  spin: "/usr/bin/spin",
  sqlite3: "/usr/bin/sqlite3",
};

/** The packages that all tests need. */
export const allPackages = {
  ...gatePackages,
  chromium: "/usr/bin/chromium",
  // A container engine is more than a script should install on a developer's machine without asking.
  ...(process.env.CI && { "docker-compose": "/usr/bin/docker-compose", "docker.io": "/usr/sbin/dockerd" }),
  fish: "/usr/bin/fish",
  "fonts-dejavu-core": "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
  "galera-4": "/usr/lib/galera/libgalera_smm.so",
  "nats-server": "/usr/sbin/nats-server",
  pgbouncer: "/usr/sbin/pgbouncer",
  "php-cli": "/usr/bin/php",
  "php-redis": "/usr/lib/php/*/redis.so",
  "python3-venv": "/usr/lib/*/ensurepip/__init__.py",
  zsh: "/usr/bin/zsh",
};
