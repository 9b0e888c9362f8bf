import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.LocalHBaseCluster;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.master.HMaster;
import org.apache.hadoop.hbase.regionserver.BloomType;
import org.apache.hadoop.hbase.regionserver.HRegionServer;
import org.apache.hadoop.hbase.thrift.ThriftServer;
import org.apache.hadoop.hbase.zookeeper.MiniZooKeeperCluster;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/**
 * All of HBase in one process: ZooKeeper, a master, a region server and the Thrift 1 server.
 *
 * <p>Arguments are tables to create when absent, as NAME:REGIONS. Prints READY when Thrift accepts connections.
 * Stops cleanly on SIGTERM, or when its standard input closes: so it never outlives whoever started it.
 */
public final class Standalone {
  private static final int THRIFT_WAIT_MS = 60_000;

  private final Configuration configuration = HBaseConfiguration.create();
  private MiniZooKeeperCluster zooKeeper;
  private LocalHBaseCluster cluster;
  private ThriftServer thrift;

  public static void main(String[] tables) throws Exception {
    Standalone server = new Standalone();
    server.startCluster();
    for (String table : tables) server.createTable(table);
    int port = server.startThrift();
    Runtime.getRuntime().addShutdownHook(new Thread(server::stop, "stop"));
    System.out.println("READY " + port);
    System.out.flush();
    while (System.in.read() >= 0) {}
    System.exit(0); // runs the hook
  }

  private void startCluster() throws Exception {
    DefaultMetricsSystem.setMiniClusterMode(true); // master and region server may both register their metrics
    int port = configuration.getInt(HConstants.ZOOKEEPER_CLIENT_PORT, 2181);
    zooKeeper = new MiniZooKeeperCluster(configuration);
    zooKeeper.setDefaultClientPort(port);
    int got = zooKeeper.startup(new File(configuration.get(HConstants.ZOOKEEPER_DATA_DIR)));
    if (got != port) throw new IOException("the ZooKeeper port " + port + " is taken");
    cluster = new LocalHBaseCluster(configuration, 1, 1, HMaster.class, HRegionServer.class);
    cluster.startup(); // returns when a master is active and initialized
  }

  /** NAME:REGIONS, split at the first key byte, which is the salt; the Thrift 1 protocol cannot ask for splits. */
  private void createTable(String nameAndRegions) throws IOException {
    String[] parts = nameAndRegions.split(":");
    TableName name = TableName.valueOf(parts[0]);
    byte[][] splits = new byte[Integer.parseInt(parts[1]) - 1][];
    for (int i = 0; i < splits.length; i++) splits[i] = new byte[] {(byte) (i + 1)};
    TableDescriptor table =
        TableDescriptorBuilder.newBuilder(name)
            .setColumnFamily(
                ColumnFamilyDescriptorBuilder.newBuilder("n".getBytes())
                    .setMaxVersions(1)
                    .setBloomFilterType(BloomType.ROW)
                    .setBlockCacheEnabled(true)
                    .build())
            .build();
    try (Connection connection = ConnectionFactory.createConnection(configuration);
        Admin admin = connection.getAdmin()) {
      if (admin.tableExists(name)) return;
      if (splits.length == 0) admin.createTable(table);
      else admin.createTable(table, splits);
    }
  }

  private int startThrift() throws Exception {
    int port = configuration.getInt("hbase.regionserver.thrift.port", 9090);
    thrift = new ThriftServer(configuration);
    Thread thread = new Thread(this::serveThrift, "thrift");
    thread.setDaemon(true);
    thread.start();
    long deadline = System.currentTimeMillis() + THRIFT_WAIT_MS;
    while (!accepts(port)) {
      if (System.currentTimeMillis() > deadline) throw new IOException("Thrift does not accept on port " + port);
      Thread.sleep(100);
    }
    return port;
  }

  private void serveThrift() {
    try {
      thrift.run(new String[0]);
    } catch (Exception failure) {
      failure.printStackTrace();
      System.exit(3);
    }
  }

  private static boolean accepts(int port) {
    try (Socket socket = new Socket()) {
      socket.connect(new InetSocketAddress("127.0.0.1", port), 500);
      return true;
    } catch (IOException refused) {
      return false;
    }
  }

  private void stop() {
    try {
      thrift.stop();
      cluster.shutdown();
      cluster.join();
      zooKeeper.shutdown();
    } catch (IOException failure) {
      failure.printStackTrace();
    }
  }
}
