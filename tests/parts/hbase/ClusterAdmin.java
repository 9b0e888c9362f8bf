import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;

/** What an administrator does to a cluster while it is used: split TABLE BYTE; move TABLE; balance; servers. */
public final class ClusterAdmin {
  public static void main(String[] words) throws Exception {
    try (Connection connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
        Admin admin = connection.getAdmin()) {
      switch (words[0]) {
        case "split":
          admin.split(TableName.valueOf(words[1]), new byte[] {Byte.parseByte(words[2])});
          break;
        case "move":
          move(connection, admin, TableName.valueOf(words[1]));
          break;
        case "balance":
          admin.balance();
          break;
        case "servers":
          break;
        default:
          throw new IllegalArgumentException(words[0]);
      }
      System.out.println(admin.getRegionServers().size());
    }
  }

  /** Each region of the table goes to another server. */
  private static void move(Connection connection, Admin admin, TableName table) throws Exception {
    List<ServerName> servers = List.copyOf(admin.getRegionServers());
    for (HRegionLocation place : connection.getRegionLocator(table).getAllRegionLocations()) {
      List<ServerName> others = servers.stream().filter(each -> !each.equals(place.getServerName())).toList();
      if (others.isEmpty()) continue;
      ServerName target = others.get(ThreadLocalRandom.current().nextInt(others.size()));
      admin.move(place.getRegion().getEncodedNameAsBytes(), target);
    }
  }
}
